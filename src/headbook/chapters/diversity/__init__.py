"""Part 3: X-raying the diversity of heads."""
