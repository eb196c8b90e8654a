"""Part 0: the parts of a head, and whether the measures work."""
