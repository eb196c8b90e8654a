"""The scorecard from planted results: verdicts, numbers, links, and faults in the tables."""

import functools
import html
import re
from dataclasses import replace

import pandas as pd
import pytest
from published import plant

from headbook import paths
from headbook.claims import board, ledger, scorecard
from headbook.claims.rule import Outcome, margin
from headbook.claims.verdict import COLUMNS, Verdict
from headbook.types import UserError

DOBJ = "voita-t1-dobj-head-to-dependent"
STUDY = "13_syntactic_heads"


@functools.cache
def load():
    """The ledger with every claim's rows published as such."""
    book = ledger.load()
    plain = [replace(claim, value=None, baseline=None) for claim in book.claims]
    return replace(book, claims=tuple(plain))


@pytest.fixture(autouse=True)
def read_once(monkeypatch):
    monkeypatch.setattr(scorecard, "load", load)


def publish(root, *rows, profile="laptop", study=STUDY, columns=COLUMNS):
    plant(root, profile, study, {"claims": pd.DataFrame(list(rows), columns=list(columns))})


def measured(claim=DOBJ, corpus="tatoeba-de", seed=0, value=0.7, low=0.65, high=0.75, base=0.4):
    target = corpus.split("-")[-1]
    return (claim, f"{corpus}-small-{seed}", corpus, target, seed, value, low, high, base)


def verdict_of(root, claim=DOBJ, profile="laptop"):
    tidy = scorecard.tidy(root)
    found = tidy[(tidy["claim"] == claim) & (tidy["profile"] == profile)]["verdict"].unique()
    assert len(found) == 1
    return found[0]


def test_without_results_every_claim_is_not_run(tmp_path):
    tidy = scorecard.tidy(tmp_path / "nothing")
    assert list(tidy["claim"]) == [claim.id for claim in load().claims]
    assert set(tidy["verdict"]) == {Verdict.NOT_RUN}
    page = scorecard.page(tmp_path / "nothing")
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
    publish(tmp_path, *told, study="14_rare_word_head", columns=(*COLUMNS, "closed"))
    assert verdict_of(tmp_path, RARE) == expected


def test_a_model_that_is_not_shown_to_have_converged_does_not_count(tmp_path):
    publish(tmp_path, measured(value=0.2, low=0.1, high=0.3))
    assert verdict_of(tmp_path) == Verdict.NOT_RUN
    shown = line(scorecard.page(tmp_path))
    assert "not run; 1 not applicable" in shown
    assert "gate closed: converged, not shown to have converged" in shown


def line(page, claim=DOBJ):
    """The line of one claim, up to its end."""
    found = re.search(rf'<details class="claim" id="{claim}".*?</details>', page, re.S)
    return html.unescape(found.group())


def test_a_claim_is_shown_at_the_largest_profile_that_measured_it(tmp_path):
    publish(tmp_path, measured(value=0.42), columns=COLUMNS)
    told = (*measured(corpus="tatoeba-ru", value=0.9, low=0.8, high=0.95), "none")
    publish(tmp_path, told, profile="full", columns=(*COLUMNS, "closed"))
    none = (*measured("voita-f5-rarest"), "present: no such head")
    publish(tmp_path, none, study="14_rare_word_head", columns=(*COLUMNS, "closed"))
    page = scorecard.page(tmp_path)
    assert 'data-mark="replicated"' in line(page)
    assert line(page).index("Profile full: ● replicated") < line(page).index("Profile laptop")
    assert 'data-mark="absent"' in line(page, "voita-f5-rarest")
    assert "Profile full: not run" in line(page, "voita-f5-rarest")


def test_the_tidy_table_says_not_run_at_every_published_profile(tmp_path):
    publish(tmp_path, (*measured(), "none"), columns=(*COLUMNS, "closed"))
    publish(tmp_path, measured("voita-f5-rarest"), study="14_rare_word_head", profile="full")
    assert verdict_of(tmp_path, profile="full") == Verdict.NOT_RUN
    assert verdict_of(tmp_path) == Verdict.REPLICATED
    assert set(scorecard.tidy(tmp_path)["profile"]) == {"full", "laptop"}


def seeds(*values):
    """One model at several seeds."""
    return [(DOBJ, f"tatoeba-de w128 s{seed}", "tatoeba-de", "de", seed, value, value - 0.05,
             value + 0.05, 0.4, "none") for seed, value in enumerate(values)]  # fmt: skip


def test_the_line_shows_number_interval_baseline_seeds_and_study(tmp_path):
    publish(tmp_path, *seeds(0.6, 0.7, 0.8), columns=(*COLUMNS, "closed"))
    shown = line(scorecard.page(tmp_path, pages="../pages"))
    assert "tatoeba-de w128: undecided; 0.700 [0.452, 0.948] over 3 seeds, baseline 0.400" in shown
    assert "its seeds: 0.600, 0.700, 0.800" in shown
    assert f'href="../pages/{STUDY}.html"' in shown and "WMT en-ru: 0.78 (baseline 0.41)" in shown
    publish(tmp_path, *seeds(0.6), columns=(*COLUMNS, "closed"))
    assert "0.600 [0.550, 0.650] within one model" in line(scorecard.page(tmp_path))


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
    publish(tmp_path, (claim, model, *others))
    assert said in line(scorecard.page(tmp_path))


def test_a_model_outside_the_domain_is_shown_and_not_counted(tmp_path):
    publish(
        tmp_path, measured("voita-f5-rarest", "msdocs-de", value=0.9), study="14_rare_word_head"
    )
    assert verdict_of(tmp_path, "voita-f5-rarest") == Verdict.NOT_RUN
    tidy = scorecard.tidy(tmp_path)
    assert "outside the claim's domain" in set(tidy["outcome"])


def test_the_figure_has_one_linked_mark_per_claim_and_the_book_s_own_apart(tmp_path):
    page = scorecard.page(tmp_path)
    linked = re.findall(r'<a href="#([^"]+)" title', page)
    assert sorted(linked) == sorted(claim.id for claim in load().claims)
    assert set(linked) == set(re.findall(r'<details class="claim" id="([^"]+)"', page))
    own = page.index("This book's own questions")
    for claim in load().claims:
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
    page = scorecard.page(tmp_path)
    assert "http" not in page and "src=" not in page and "@import" not in page
    without = page[: page.index("<script>")]
    assert without.count('<details class="claim"') == len(load().claims)
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
    told = ("fast-weights-identity", "m", "tatoeba-de", "de", 0, 0.0, 0.0, 0.0, None)
    publish(tmp_path, told, study="44_fast_weights")
    shown = line(scorecard.page(tmp_path), "fast-weights-identity")
    assert 'data-mark="not counted"' in shown and "identity</span>" in shown


def test_a_superseded_claim_is_shown_and_not_counted(tmp_path):
    told = ("needs-width", "tatoeba-de w128", "tatoeba-de", "de", None, 0.2, 0.1, 0.3, None)
    publish(tmp_path, told, study="27_what_specialising_needs")
    shown = line(scorecard.page(tmp_path), "needs-width")
    assert 'data-mark="not counted"' in shown and "superseded</span>" in shown
    assert "● replicated (superseded, not counted)" in shown
    assert 'Superseded by <a href="#neighbour-needs-width">' in shown
    assert verdict_of(tmp_path, "needs-width") == Verdict.REPLICATED


def test_a_line_says_what_is_measured_in_which_unit(tmp_path):
    shown = line(scorecard.page(tmp_path), "xray-first-layer-embedding")
    assert "Unit: natural logarithm, or nats. Counts when" in shown


def test_a_changed_rule_tells_its_history(tmp_path):
    shown = line(scorecard.page(tmp_path), "michel-t1-few-significant")
    assert "Until 2026-11-23: At most 0.183" in shown and "Changed because:" in shown


def test_text_of_a_model_cannot_become_markup(tmp_path):
    publish(tmp_path, (DOBJ, "<b>a</b>\n```", "tatoeba-fr", "fr", 0, 0.6, 0.5, 0.7, 0.4))
    page = scorecard.page(tmp_path)
    fences = [line for line in page.splitlines() if line.startswith("```")]
    assert "<b>" not in page and len(fences) == 2


def test_no_number_of_the_page_is_typed(tmp_path):
    """The same page from other results differs in nothing but what the results say."""
    publish(tmp_path, measured(value=0.7123))
    first = scorecard.page(tmp_path)
    publish(tmp_path, measured(value=0.7346))
    assert scorecard.page(tmp_path) == first.replace("0.712", "0.735")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([measured(claim="no-such-claim")], "line 2: claim 'no-such-claim' is not in"),
        ([measured(), measured("voita-f5-rarest")], "line 3: claim voita-f5-rarest belongs to"),
        ([measured(), measured()], "line 3: this claim and model are given twice"),
        ([measured(value="high")], "column value"),
    ],
)
def test_a_fault_in_a_table_is_one_line_naming_it(tmp_path, rows, said):
    publish(tmp_path, *rows)
    with pytest.raises(UserError) as fault:
        scorecard.page(tmp_path)
    line = str(fault.value)
    assert said in line and f"laptop/{STUDY}/claims" in line and "\n" not in line


def test_missing_and_unknown_columns_are_refused(tmp_path):
    publish(tmp_path, measured()[:-1], columns=COLUMNS[:-1])
    with pytest.raises(UserError, match="columns must be"):
        scorecard.read(load(), tmp_path)


def test_a_truncated_file_is_refused_and_an_empty_table_is_not(tmp_path):
    publish(tmp_path)
    assert scorecard.read(load(), tmp_path).empty
    (tmp_path / "13" / "summary.csv").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=r"13/summary.csv"):
        scorecard.read(load(), tmp_path)


def test_an_unknown_gate_in_a_table_is_refused(tmp_path):
    publish(tmp_path, (*measured(), "trained: well"), columns=(*COLUMNS, "closed"))
    with pytest.raises(UserError, match="line 2: closed: 'trained' is no gate"):
        scorecard.read(load(), tmp_path)
