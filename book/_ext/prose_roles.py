"""Numbers and claims of the prose, checked against the published results while the book is built.

``{n}`66 % <13/best[firefox-en-pt].value:%>` `` shows the number, with its cell as a tooltip;
``{claim}`voita-f1-a: replicated` `` a badge that opens the claim on the scorecard. A number or
verdict that is not the published one is a warning, which the build takes as an error.
"""

from functools import cache

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from headbook.book import numbers
from headbook.claims import board, scorecard
from headbook.claims.verdict import Result
from headbook.types import UserError

logger = logging.getLogger(__name__)

SCORECARD = "_generated/scorecard"
MEND = "run `headbook numbers`"

Found = tuple[list[nodes.Node], list[nodes.system_message]]


class NumberRole(SphinxRole):
    """Role `n`: what is written, which has to be what its cell gives."""

    def run(self) -> Found:
        try:
            page = numbers.page_of(self.env.docname)
            shown, reference, cell = numbers.number(self.text, page)
        except UserError as fault:
            logger.warning("%s", fault, location=self.get_location())
            return [nodes.inline(self.rawtext, self.text)], []
        if shown != cell.text:
            said = f"{shown!r} is now {cell.text!r}, {reference}: {MEND}"
            logger.warning(said, location=self.get_location())
        explained = {"explanation": cell.origin, "classes": ["headbook-n"]}
        return [nodes.abbreviation(self.rawtext, shown, **explained)], []


class ClaimRole(SphinxRole):
    """Role `claim`: one badge per claim, whose verdict has to be the current one."""

    def run(self) -> Found:
        try:
            found = list(numbers.claims(self.text, verdicts()))
        except UserError as fault:
            logger.warning("%s", fault, location=self.get_location())
            return [nodes.inline(self.rawtext, self.text)], []
        badges: list[nodes.Node] = []
        for identifier, stated, verdict in found:
            if stated != verdict:
                said = f"claim {identifier} is stated as {stated!r} and is {verdict!r}: {MEND}"
                logger.warning(said, location=self.get_location())
            badges += [nodes.Text(" "), self.badge(results()[identifier], verdict)]
        return badges[1:], []

    def badge(self, result: Result, verdict: str) -> nodes.reference:
        page = self.env.app.builder.get_relative_uri(self.env.docname, SCORECARD)
        mark = board.mark_of(result)
        shape = f'<svg viewBox="0 0 16 16" aria-hidden="true">{board.SHAPES[mark]}</svg> '
        return nodes.reference(
            self.rawtext,
            "",
            nodes.raw("", shape, format="html"),
            nodes.Text(verdict),
            internal=True,
            refuri=f"{page}#{result.claim.id}",
            reftitle=result.claim.claim,
            classes=["headbook-claim", mark.replace(" ", "-")],
        )


@cache
def results() -> dict[str, Result]:
    """Every claim with its verdict, judged once per build."""
    return scorecard.current()


def verdicts() -> dict[str, str]:
    return scorecard.stated(results())


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_role("n", NumberRole())
    app.add_role("claim", ClaimRole())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
