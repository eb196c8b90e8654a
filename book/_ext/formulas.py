"""Formulas as MathML, written while the book is built: no script and no network needed."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)

# a command the converter does not know comes out as its own name
UNKNOWN = re.compile(r"<m[a-z]+[^>]*>(\\[A-Za-z]+)</m[a-z]+>")
# browsers know no double-struck digits, which the converter asks for
ONE = '<mn mathvariant="double-struck">1</mn>', "<mn>𝟙</mn>"
# both bars of a norm have one height, though a power stands at the second alone
BAR = "<mo>&#x02016;</mo>", '<mo stretchy="false">&#x02016;</mo>'


def _mathml(node: nodes.Element, display: str) -> str:
    source = node.astext().strip()
    if display == "block" and r"\\" in source and r"\begin{" not in source:
        source = rf"\begin{{aligned}}{source}\end{{aligned}}"
    try:
        formula = convert(source, display=display).replace(*ONE).replace(*BAR)
    except Exception as error:  # the converter raises a dozen kinds; each is the page's mistake
        logger.warning("formula %r: %s", source, error or type(error).__name__, location=node)
        return f"<code>{source}</code>"
    for command in UNKNOWN.findall(formula):
        logger.warning("formula %r: unknown command %s", source, command, location=node)
    return formula


def visit_inline(writer: object, node: nodes.math) -> None:
    writer.body.append(f'<span class="math">{_mathml(node, "inline")}</span>')
    raise nodes.SkipNode


def visit_block(writer: object, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        writer.body.append(f'<span class="eqno">({get_node_equation_number(writer, node)})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(_mathml(node, "block") + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
