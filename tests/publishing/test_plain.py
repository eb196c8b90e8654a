"""What a reader downloads reads like the page wherever it is opened."""

import json
import re

from headbook import paths
from headbook.publishing.plain import plain


def test_a_text_has_neither_roles_nor_boxes() -> None:
    text = (
        "{cite:t}`voita2019` and {cite:t}`jain2019` say so {cite}`michel2019, post2018`.\n\n"
        ":::{admonition} Answer\n:class: answer\n**Yes.** In {n}`55 % [1, 2]\n<a[b].c:%>`, "
        "{doc}`as said </how_to_read>`.\n\nSo {claim}`a: mixed; b: not judged`.\n:::\n\n"
        "See {doc}`13_syntactic_heads`, {ref}`why <deviation-x>`."
    )
    assert plain(text) == (
        "Voita et al. (2019) and Jain and Wallace (2019) say so "
        "(Michel et al. 2019; Post 2018).\n\n"
        "> **Answer**\n>\n> **Yes.** In 55 % [1, 2], as said.\n>\n> So (mixed, not judged).\n\n"
        "See page 13, why."
    )


def test_no_page_keeps_any() -> None:
    for path in paths.NOTEBOOKS.glob("*.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                left = re.findall(r"\{[a-z:]+\}`|^:::.*$", plain("".join(cell["source"])), re.M)
                assert left == [], path.name
