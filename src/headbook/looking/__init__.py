"""The public interface: the heads of any model."""
