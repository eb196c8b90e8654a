"""Part 5: seeing and doubting attention."""
