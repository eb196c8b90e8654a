"""The transformer, its attention, capture and decoding."""
