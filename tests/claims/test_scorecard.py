"""The scorecard from planted results: verdicts, numbers, links, and faults in the tables."""

import re

import pandas as pd
import pytest

from headbook.claims import scorecard
from headbook.claims.ledger import load
from headbook.claims.verdict import COLUMNS, Verdict
from headbook.types import UserError

DOBJ = "voita-t1-dobj-head-to-dependent"
STUDY = "13_syntactic_heads"


def publish(root, *rows, profile="laptop", study=STUDY, columns=COLUMNS):
    folder = root / profile / study
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(list(rows), columns=list(columns)).to_csv(folder / "claims.csv", index=False)


def measured(claim=DOBJ, corpus="tatoeba-de", seed=0, value=0.7, low=0.65, high=0.75, base=0.4):
    target = corpus.split("-")[-1]
    return (claim, f"{corpus}-small-{seed}", corpus, target, seed, value, low, high, base)


def verdict_of(root, claim=DOBJ, profile="laptop"):
    tidy = scorecard.tidy(root)
    found = tidy[(tidy["claim"] == claim) & (tidy["profile"] == profile)]["verdict"].unique()
    assert len(found) == 1
    return found[0]


def test_without_results_every_claim_is_not_yet_run(tmp_path):
    tidy = scorecard.tidy(tmp_path / "nothing")
    assert list(tidy["claim"]) == [claim.id for claim in load().claims]
    assert set(tidy["verdict"]) == {Verdict.NOT_YET_RUN}
    page = scorecard.page(tmp_path / "nothing")
    assert f"**{len(tidy)}** ○ not yet run" in page and "**0** ✔ replicated" in page


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.6, 0.7), Verdict.REPLICATED),
        ((0.6, 0.4999), Verdict.PARTLY),
        ((0.42, 0.3), Verdict.DIFFERS),
        ((float("nan"), float("nan")), Verdict.DIFFERS),
    ],
)
def test_published_tables_reach_their_verdict(tmp_path, values, expected):
    publish(tmp_path, *(measured(seed=seed, value=value) for seed, value in enumerate(values)))
    assert verdict_of(tmp_path) == expected


def columns(page):
    """The titles of each table of the works."""
    heads = [line for line in page.splitlines() if line.startswith("| profile ")]
    return {tuple(cell.strip() for cell in head.strip("|").split("|")) for head in heads}


def cells(page, claim=DOBJ):
    """The cells of one claim's line, found by its text."""
    text = load().claim(claim).claim
    (line,) = [line for line in page.splitlines() if text in line and "{doc}" in line]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_another_profile_does_not_decide(tmp_path):
    publish(tmp_path, measured(corpus="controlled-sov", value=0.99), profile="quick")
    assert verdict_of(tmp_path) == Verdict.NOT_YET_RUN
    assert verdict_of(tmp_path, profile="quick") == Verdict.REPLICATED
    page = scorecard.page(tmp_path)
    assert "claims at profile laptop: **0** ✔ replicated" in page
    assert "claims at profile quick: **1** ✔ replicated" in page
    assert cells(page)[:2] == ["○ not yet run", "✔ replicated"]


def test_one_published_profile_is_one_column(tmp_path):
    publish(tmp_path, measured())
    page = scorecard.page(tmp_path)
    assert columns(page) == {("profile laptop", "claim", "the work's number", "ours")}
    assert cells(page)[0] == "✔ replicated"
    assert page.count("claims at profile") == 1


def test_every_published_profile_has_its_column_the_largest_first(tmp_path):
    """Full says yes, laptop says no; another claim has been measured at laptop alone."""
    publish(tmp_path, measured(value=0.42))
    publish(tmp_path, measured("voita-f5-rarest", "tatoeba-de"), study="14_rare_word_head")
    publish(tmp_path, measured(corpus="tatoeba-ru", value=0.9), profile="full")
    page = scorecard.page(tmp_path)
    titles = ("profile full", "profile laptop", "claim", "the work's number", "ours")
    assert columns(page) == {titles}
    assert cells(page)[:2] == ["✔ replicated", "✘ differs"]
    assert cells(page, "voita-f5-rarest")[0] == "○ not yet run"
    assert cells(page, "voita-f5-rarest")[1] != "○ not yet run"
    ours = cells(page)[-1]
    assert ours.index("*Profile full:*") < ours.index("tatoeba-ru") < ours.index("*Profile laptop")
    assert ours.index("*Profile laptop:*") < ours.index("tatoeba-de")
    assert len(cells(page)) == len(titles)
    assert page.index("claims at profile full: **1** ✔") < page.index("claims at profile laptop:")


def test_the_tidy_table_says_not_yet_run_at_every_published_profile(tmp_path):
    publish(tmp_path, measured())
    publish(tmp_path, measured("voita-f5-rarest"), study="14_rare_word_head", profile="full")
    assert verdict_of(tmp_path, profile="full") == Verdict.NOT_YET_RUN
    assert verdict_of(tmp_path) == Verdict.REPLICATED
    assert set(scorecard.tidy(tmp_path)["profile"]) == {"full", "laptop"}


def test_the_page_shows_number_interval_baseline_seeds_and_study(tmp_path):
    publish(tmp_path, *(measured(seed=seed, value=0.6 + 0.1 * seed) for seed in range(3)))
    page = scorecard.page(tmp_path, pages="/pages")
    line = next(line for line in page.splitlines() if "tatoeba-de-small-1" in line)
    assert line.startswith("| ✔ replicated |")
    assert "seed 1: 0.700 [0.650, 0.750], baseline 0.400" in line
    assert "mean of 3 seeds: 0.700 [" in line and "standard deviation 0.100" in line
    assert f"<{'/pages'}/{STUDY}>" in line and "*Profile laptop:*" in line
    assert "WMT en-ru: 0.78 (baseline 0.41)" in line


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("tatoeba-de w128 s1", "tatoeba-de w128 s1: 0.700"),
        ("tatoeba-de w128 s11", "tatoeba-de w128 s11, seed 1: 0.700"),
        ("tatoeba-de w128", "tatoeba-de w128, seed 1: 0.700"),
    ],
)
def test_a_seed_that_the_model_s_name_tells_is_not_told_twice(tmp_path, model, line):
    claim, _, *others = measured(seed=1)
    publish(tmp_path, (claim, model, *others))
    assert line in scorecard.page(tmp_path)


def test_a_missing_number_is_said_on_the_page(tmp_path):
    publish(tmp_path, measured(value=float("nan")))
    assert "? no number, so not passed: tatoeba-de-small-0, seed 0: none" in scorecard.page(
        tmp_path
    )


def test_a_model_outside_the_domain_is_shown_and_not_counted(tmp_path):
    publish(
        tmp_path, measured("voita-f5-rarest", "msdocs-de", value=0.9), study="14_rare_word_head"
    )
    assert verdict_of(tmp_path, "voita-f5-rarest") == Verdict.NOT_YET_RUN
    assert "– not counted (other domain): msdocs-de-small-0" in scorecard.page(tmp_path)


def test_every_row_of_a_table_on_the_page_has_its_cells(tmp_path):
    publish(tmp_path, measured(), (DOBJ, "a | b\nc", "tatoeba-fr", "fr", 0, 0.6, 0.5, 0.7, 0.4))
    rows = [line for line in scorecard.page(tmp_path).splitlines() if line.startswith("| ")]
    tables = [line for line in rows if "{doc}" in line]
    assert len(tables) == len(load().claims)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} == {5}


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
    assert said in line and f"laptop/{STUDY}/claims.csv" in line and "\n" not in line


def test_missing_and_unknown_columns_are_refused(tmp_path):
    publish(tmp_path, measured()[:-1], columns=COLUMNS[:-1])
    with pytest.raises(UserError, match="columns must be"):
        scorecard.read(load(), tmp_path)


def test_an_empty_file_is_refused_and_an_empty_table_is_not(tmp_path):
    publish(tmp_path)
    assert scorecard.read(load(), tmp_path).empty
    (tmp_path / "laptop" / STUDY / "claims.csv").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="not a readable table"):
        scorecard.read(load(), tmp_path)
