"""The public interface: any model's heads in five lines."""
