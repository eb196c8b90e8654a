"""Measures of a head, each a streaming metric, and the roles read from them."""
