"""Readers of models that other people trained and released, one contract: models/loaded.py."""
