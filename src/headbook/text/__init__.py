"""Sentences, trees, words and pieces, batches, and where texts come from."""
