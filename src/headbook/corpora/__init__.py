"""Corpora: registry and download, readers, the controlled corpus, subwords, batches."""
