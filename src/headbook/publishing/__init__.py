"""Executing the notebooks and building the book."""
