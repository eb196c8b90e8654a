"""The pages of the book, each in one module that declares itself; see `chapter`."""

PUBLISHED = "published"
"""The profile that trains nothing: pages about models trained here read their published tables."""
