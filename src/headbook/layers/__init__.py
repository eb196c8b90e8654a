"""Information in a layer's representations of tokens, and their change by layer."""
