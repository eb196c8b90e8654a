"""The run store: what takes long is kept by all that decides it; seeds, records, timing."""
