"""Dependency trees: spaCy parses, gold treebanks, word-to-subword alignment."""
