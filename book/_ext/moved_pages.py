"""Addresses of pages that have moved lead to those that have their place, by `moved.yml`."""

from pathlib import Path

import yaml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

FOLDER = "_executed"
PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={name}.html">
<title>This page has moved</title><main><h1>This page has moved</h1>
<p><a href="{name}.html">{name}</a></p></main></html>
"""


def lead_on(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    moved = yaml.safe_load(Path(app.srcdir, "moved.yml").read_text("utf-8"))
    for old, new in moved.items():
        page = Path(app.outdir, FOLDER, f"{old}.html")
        if page.with_name(f"{new}.html").exists():  # a book of some pages may be without it
            if f"{FOLDER}/{old}" in app.env.found_docs:
                raise ExtensionError(f"moved.yml: {old} is a page of the book, and moved to {new}")
            page.write_text(PAGE.format(name=new), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", lead_on)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
