"""The scorecard from planted results: verdicts, numbers, links, and faults in the tables."""

import html
import re
from dataclasses import replace

import pytest
from published_table import put

from headbook import paths
from headbook.claims import board, ledger, scorecard
from headbook.claims.rule import Outcome, margin
from headbook.claims.verdict import Verdict

DOBJ = "voita-t1-dobj-head-to-dependent"
STUDY = "13_syntactic_heads"


HEAD = "claim,model,corpus,target,seed,value,value_low,value_high,baseline,closed"


def board_of(*rows):
    """The ledger in which the claims of these rows, and no other, point at them."""
    asked = {row[0] for row in rows}
    book = ledger.load()
    return replace(book, claims=tuple(
        replace(each, value=f"13/planted[claim={each.id}].value", baseline="baseline")
        if each.id in asked else replace(each, value=None, baseline=None)
        for each in book.claims
    ))  # fmt: skip


def publish(root, *rows):
    """Publishes rows of claims; gives where, and the ledger that points at them."""
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    put(root, "13/planted", "\n".join([HEAD, *lines, ""]))
    return {"root": root, "ledger": board_of(*rows)}


def measured(
    claim=DOBJ, corpus="tatoeba-de", seed=0, value=0.7, low=0.65, high=0.75, base=0.4, closed=None
):
    target = corpus.split("-")[-1]
    model = f"{corpus}-small-{seed}"
    return (claim, model, corpus, target, seed, value, low, high, base, closed)


def verdict_of(found, claim=DOBJ):
    tidy = scorecard.tidy(**found)
    (verdict,) = tidy[tidy["claim"] == claim]["verdict"].unique()
    return verdict


def test_without_results_every_claim_is_not_run(tmp_path):
    tidy = scorecard.tidy(tmp_path / "nothing")
    assert list(tidy["claim"]) == [claim.id for claim in ledger.load().claims]
    assert set(tidy["verdict"]) == {Verdict.NOT_RUN}
    page = scorecard.page(root=tmp_path / "nothing")
    assert "replicated</span>" not in page and page.count("not run</span>") > 100


# Tatoeba: the claim is of short and of long sentences, and needs a rare-word head
RARE = "voita-f5-two-rarest-long"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(0.6, 0.55, 0.7)], Verdict.REPLICATED),
        ([(0.6, 0.45, 0.7)], Verdict.INCONCLUSIVE),
        ([(0.3, 0.2, 0.4)], Verdict.CONTRADICTED),
        ([(0.6, 0.55, 0.7), (0.3, 0.2, 0.4)], Verdict.MIXED),
        ([(float("nan"),) * 3], Verdict.INCONCLUSIVE),
    ],
)
def test_published_tables_reach_their_verdict(tmp_path, rows, expected):
    """One row per width, so that each is a model of its own."""
    told = [(RARE, f"msdocs-ru w{n}", "msdocs-ru", "ru", 0, *numbers, 0.1, "none")
            for n, numbers in enumerate(rows)]  # fmt: skip
    assert verdict_of(publish(tmp_path, *told), RARE) == expected


def test_a_model_that_is_not_shown_to_have_converged_does_not_count(tmp_path):
    found = publish(tmp_path, measured(value=0.2, low=0.1, high=0.3))
    assert verdict_of(found) == Verdict.NOT_RUN
    shown = line(scorecard.page(**found))
    assert "not run; 1 not applicable" in shown
    assert "gate closed: converged, not shown to have converged" in shown


def line(page, claim=DOBJ):
    """The line of one claim, up to its end."""
    found = re.search(rf'<details class="claim" id="{claim}".*?</details>', page, re.S)
    return html.unescape(found.group())


def seeds(*values):
    """One model at several seeds."""
    return [(DOBJ, f"tatoeba-de w128 s{seed}", "tatoeba-de", "de", seed, value, value - 0.05,
             value + 0.05, 0.4, "none") for seed, value in enumerate(values)]  # fmt: skip


def test_the_line_shows_number_interval_baseline_seeds_and_study(tmp_path):
    shown = line(scorecard.page("../pages", **publish(tmp_path, *seeds(0.6, 0.7, 0.8))))
    assert "tatoeba-de w128: undecided; 0.700 [0.452, 0.948] over 3 seeds, baseline 0.400" in shown
    assert "its seeds: 0.600, 0.700, 0.800" in shown
    assert f'href="../pages/{STUDY}.html"' in shown and "WMT en-ru: 0.78 (baseline 0.41)" in shown
    single = line(scorecard.page(**publish(tmp_path, *seeds(0.6))))
    assert "0.600 [0.550, 0.650] within one model" in single


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("tatoeba-de w128 s1", "tatoeba-de w128 s1:"),
        ("tatoeba-de w128 s11", "tatoeba-de w128 s11, seed 1:"),
        ("tatoeba-de w128", "tatoeba-de w128, seed 1:"),
    ],
)
def test_a_seed_that_the_model_s_name_tells_is_not_told_twice(tmp_path, model, said):
    claim, _, *others = measured(seed=1)
    assert said in line(scorecard.page(**publish(tmp_path, (claim, model, *others))))


def test_a_model_outside_the_domain_is_shown_and_not_counted(tmp_path):
    found = publish(tmp_path, measured("voita-f5-rarest", "msdocs-de", value=0.9))
    assert verdict_of(found, "voita-f5-rarest") == Verdict.NOT_RUN
    assert "outside the claim's domain" in set(scorecard.tidy(**found)["outcome"])


def test_the_figure_has_one_linked_mark_per_claim_and_the_book_s_own_apart(tmp_path):
    page = scorecard.page(root=tmp_path)
    linked = re.findall(r'<a href="#([^"]+)" title', page)
    assert sorted(linked) == sorted(claim.id for claim in ledger.load().claims)
    assert set(linked) == set(re.findall(r'<details class="claim" id="([^"]+)"', page))
    own = page.index("This book's own questions")
    for claim in ledger.load().claims:
        assert (page.index(f'<a href="#{claim.id}" title') > own) == (claim.work == "headbook")


def test_every_mark_has_a_shape_and_a_colour_of_its_own():
    marks = [*Verdict, board.UNCOUNTED]
    assert set(board.SHAPES) == set(board.MEANINGS) == set(marks) == {*board.ORDER, board.UNCOUNTED}
    assert len({shape for shape in board.SHAPES.values()}) == len(marks)
    style = (paths.BOOK / "_static" / "headbook.css").read_text("utf-8")
    decided = [re.findall(rf"--{name}: (#\w+)", style)
               for name in ("replicated", "mixed", "contradicted")]  # fmt: skip
    assert len({colour for each in decided for colour in each}) == 6  # light and dark


def test_the_page_asks_no_other_host_and_is_complete_without_its_script(tmp_path):
    page = scorecard.page(root=tmp_path)
    assert "http" not in page and "src=" not in page and "@import" not in page
    without = page[: page.index("<script>")]
    assert without.count('<details class="claim"') == len(ledger.load().claims)
    assert '<p class="filters" hidden>' in without and "<section hidden" not in without


def test_no_published_verdict_stands_against_an_interval_or_a_gate():
    """Of the published tables: whoever decides has no closed gate and no threshold inside."""
    decided = 0
    for result in scorecard.current(ledger=ledger.load()).values():
        for model in result.models:
            if model.outcome not in (Outcome.PASS, Outcome.FAIL):
                continue
            assert not model.closed, result.claim.id
            low, high = (margin(result.claim.rule, model.row, end) for end in ("low", "high"))
            for bound in result.claim.rule.range or (result.claim.rule.threshold,):
                assert not low < bound < high, (result.claim.id, model.model)
            decided += 1
    assert decided > 100


def test_what_is_not_counted_says_why(tmp_path):
    told = ("fast-weights-identity", "m", "tatoeba-de", "de", 0, 0.0, 0.0, 0.0, None, None)
    shown = line(scorecard.page(**publish(tmp_path, told)), "fast-weights-identity")
    assert 'data-mark="not counted"' in shown and "identity</span>" in shown


def test_a_superseded_claim_is_shown_and_not_counted(tmp_path):
    told = ("needs-width", "tatoeba-de w128", "tatoeba-de", "de", None, 0.2, 0.1, 0.3, None, None)
    found = publish(tmp_path, told)
    shown = line(scorecard.page(**found), "needs-width")
    assert 'data-mark="not counted"' in shown and "superseded</span>" in shown
    assert "● replicated (superseded, not counted)" in shown
    assert 'Superseded by <a href="#neighbour-needs-width">' in shown
    assert verdict_of(found, "needs-width") == Verdict.REPLICATED


def test_a_line_says_what_is_measured_in_which_unit(tmp_path):
    shown = line(scorecard.page(root=tmp_path), "xray-first-layer-embedding")
    assert "Unit: natural logarithm, or nats. Counts when" in shown


def test_a_changed_rule_tells_its_history(tmp_path):
    shown = line(scorecard.page(root=tmp_path), "michel-t1-few-significant")
    assert "Until 2026-11-23: At most 0.183" in shown and "Changed because:" in shown


def test_text_of_a_model_cannot_become_markup(tmp_path):
    told = (DOBJ, "<b>a</b> ```", "tatoeba-fr", "fr", 0, 0.6, 0.5, 0.7, 0.4, None)
    page = scorecard.page(**publish(tmp_path, told))
    fences = [line for line in page.splitlines() if line.startswith("```")]
    assert "<b>" not in page and len(fences) == 2


def test_no_number_of_the_page_is_typed(tmp_path):
    """The same page from other results differs in nothing but what the results say."""
    first = scorecard.page(**publish(tmp_path, measured(value=0.7123)))
    second = scorecard.page(**publish(tmp_path, measured(value=0.7346)))
    assert second == first.replace("0.712", "0.735")
