"""Part 1: specialised heads do the heavy lifting."""
