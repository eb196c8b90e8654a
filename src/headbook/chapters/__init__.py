"""The pages of the book, each in one module that declares itself; see `chapter`."""
