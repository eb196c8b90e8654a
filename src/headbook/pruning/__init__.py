"""Closing heads: Hard Concrete gates, orders of heads, surgery."""
