"""The pages of the book, each in one module that declares itself; see `chapter`."""

COMPARED = "application/vnd.headbook.compared+json"
"""The type of the output that says how many values were measured again, for the runner."""
PUBLISHED = "published"
"""The profile that trains nothing: pages about models trained here read their published tables."""
