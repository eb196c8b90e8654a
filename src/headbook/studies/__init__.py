"""One module a notebook: Config, compute, draw."""
