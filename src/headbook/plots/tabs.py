"""`hb.tabs`: several tables or figures in one place, one of them seen at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape

import pandas as pd

from headbook.types import UserError

STYLE = """
.hb-tabs{margin:.6rem 0}
.hb-tabs>input{position:absolute;width:0;margin:0;opacity:0;pointer-events:none}
.hb-tabs>label{display:inline-block;padding:.3rem .7rem;cursor:pointer;opacity:.75;
border-bottom:2px solid transparent}
.hb-tabs>input:checked+label{opacity:1;border-color:currentColor;font-weight:600}
.hb-tabs>input:focus-visible+label{outline:2px solid currentColor;outline-offset:-2px}
.hb-tabs>div{display:none;overflow:auto;max-height:28rem;padding-top:.5rem}
.hb-tabs>div:has(.headbook-view,.headbook-figure){max-height:none}
.hb-tabs>div:has(.headbook-view){padding-top:0}
.hb-tabs:has(.headbook-view){margin:0}.hb-tabs:has(.headbook-view)>label{padding:.1rem .7rem}
@media print{.hb-tabs>div{display:block!important;max-height:none}}
"""


@dataclass(frozen=True)
class Tabs:
    """Titles and what each shows: an object with HTML of its own, or a table."""

    shown: Mapping[str, object]

    def _repr_html_(self) -> str:
        bodies = [_html(each) for each in self.shown.values()]
        name = "tabs-" + sha256("".join([*self.shown, *bodies]).encode()).hexdigest()[:8]
        rules, titles, panels = STYLE, "", ""
        for at, (title, body) in enumerate(zip(self.shown, bodies, strict=True)):
            this, title = f"{name}-{at}", escape(title)
            checked = "" if at else " checked"
            titles += f'<input type="radio" name="{name}" id="{this}"{checked}>'
            titles += f'<label for="{this}">{title}</label>'
            rules += f"#{this}:checked~.{this}{{display:block}}"
            # a panel that scrolls is reached by the keyboard, too
            named = f'tabindex="0" role="group" aria-label="{title}"'
            panels += f'<div class="{this}" {named}>{body}</div>'
        return f'<style>{rules}</style><div class="hb-tabs">{titles}{panels}</div>'

    def __repr__(self) -> str:
        return "\n\n".join(f"{title}\n{shown!r}" for title, shown in self.shown.items())


def tabs(shown: Mapping[str, object]) -> Tabs:
    """Tables and figures under their titles, one of them seen at a time; no script is needed.

    On paper all of them stand one below the other. UserError for more than three: what does not fit
    there belongs into a table to download, or on a page of its own.
    """
    if not 1 <= len(shown) <= 3:
        raise UserError(f"{len(shown)} tabs; show one to three")
    return Tabs(dict(shown))


def _html(shown: object) -> str:
    if isinstance(shown, pd.DataFrame):
        return shown.to_html(index=False, border=0, na_rep="")
    if (made := getattr(shown, "_repr_html_", None)) is None:
        raise UserError(f"{type(shown).__name__} has no HTML; give a table, a figure or a view")
    return made()
