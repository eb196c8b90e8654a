"""Part 4: why multi-head attention works."""
