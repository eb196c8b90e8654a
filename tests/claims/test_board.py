"""The scorecard from planted results: a line and a mark per claim."""

import html
import re
from dataclasses import replace
from pathlib import Path

from published_table import put

from headbook.claims import board, scorecard
from headbook.claims.ledger import load

DOBJ = "voita-t1-dobj-head-to-dependent"
HEAD = "claim,model,corpus,target,seed,value,value_low,value_high,baseline,closed"


def measured(
    claim: str = DOBJ,
    model: str = "tatoeba-de w128",
    seed: object = 0,
    value: float = 0.7,
    closed: str = "none",
) -> str:
    numbers = f"{value},{value - 0.05:.4f},{value + 0.05:.4f}"
    return f"{claim},{model},tatoeba-de,de,{seed},{numbers},0.4,{closed}"


def page(root: Path, *rows: str) -> str:
    """The scorecard where these rows, and no others, are what the claims point at."""
    put(root, "13/planted", "\n".join([HEAD, *rows, ""]))
    asked = {row.partition(",")[0] for row in rows}
    claims = tuple(
        replace(each, value=f"13/planted[claim={each.id}].value", baseline="baseline", role=None,
                settled=None if each.unconverged else "Planted.")
        if each.id in asked else replace(each, value=None, baseline=None)
        for each in load().claims
    )  # fmt: skip
    return board.page(scorecard.current(root, replace(load(), claims=claims)), "../pages")


def line(page: str, claim: str = DOBJ) -> str:
    """The line of one claim, up to its end."""
    found = re.search(rf'<details class="claim" id="{claim}".*?</details>', page, re.S)
    return html.unescape(found.group())


def test_a_line_has_verdict_number_interval_baseline_seeds_and_page(tmp_path: Path) -> None:
    rows = (measured(model=f"w128 s{n}", seed=n, value=x) for n, x in enumerate((0.6, 0.7, 0.8)))
    shown = line(page(tmp_path / "seeds", *rows))
    assert "w128, tatoeba-de: undecided; 0.700 [0.452, 0.948] over 3 seeds, baseline 0.400" in shown
    assert "its seeds: 0.600, 0.700, 0.800" in shown
    assert 'href="../pages/13_syntactic_heads.html"' in shown
    assert "WMT en-ru: 0.78 (baseline 0.41)" in shown and "Unit: share" in shown
    single = line(page(tmp_path / "one", measured(value=0.6)))
    assert "tatoeba-de w128, seed 0: passes; 0.600 [0.550, 0.650] within one model" in single
    assert 'class="verdict replicated"' in single and "replicated · 1 of 1</span>" in single


def test_what_does_not_count_says_why(tmp_path: Path) -> None:
    young = line(page(tmp_path / "young", measured(closed="")))
    assert "not judged; 1 not applicable" in young
    assert "gate closed: converged, not shown to have converged" in young
    shown = page(tmp_path / "others", measured("needs-width", value=0.2))
    superseded = line(shown, "needs-width")
    assert 'class="verdict not-counted"' in superseded and "superseded</span>" in superseded
    assert 'Superseded by <a href="#neighbour-needs-width">' in superseded
    long = "voita-f5-two-rarest-long"
    outside = line(page(tmp_path / "far", measured(long)), long)
    assert "outside the claim’s domain" in outside and load().claim(long).unmeasured in outside


def test_the_figure_has_one_linked_mark_per_claim(tmp_path: Path) -> None:
    shown, every = page(tmp_path, measured()), sorted(claim.id for claim in load().claims)
    assert sorted(re.findall(r'<a href="#([^"]+)" title', shown)) == every
    assert sorted(re.findall(r'<details class="claim" id="([^"]+)"', shown)) == every


def test_the_page_asks_no_other_host_and_is_complete_without_its_script(tmp_path: Path) -> None:
    shown = page(tmp_path, measured(model="<b>a</b> ```"))
    fences = [line for line in shown.splitlines() if line.startswith("```")]
    assert "<b>" not in shown and len(fences) == 2
    assert "http" not in shown and "src=" not in shown and "@import" not in shown
