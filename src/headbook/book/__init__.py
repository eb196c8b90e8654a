"""The book: numbers and claims in its prose."""
