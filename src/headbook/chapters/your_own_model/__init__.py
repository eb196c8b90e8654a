"""Part 6: the public interface, on any model."""
