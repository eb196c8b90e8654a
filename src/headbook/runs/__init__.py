"""The run store: content-addressed artefacts, and seeds."""
