"""Part 0: what a head is, and whether the measures work."""
