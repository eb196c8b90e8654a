"""What a layer's representations of tokens hold: information about tokens, and change by layer."""
