"""The front page: its numbers, from published tables, and the guards of its sentences.

In `intro.md`, `{{ p22_en_bleu }}` is the fact `en_bleu` of page 22, formatted as there;
`{{ claims }}`, `{{ absent }}` and the like count the works' claims, and `{{ strip }}` shows them.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from headbook import paths
from headbook.types import UserError

FACT = re.compile(r"{{ p(\d\d)_(\w+) }}")
PLACE = re.compile(r"{{ (\w+) }}")
SCORECARD = "_generated/scorecard.html"


def filled(text: str) -> str:
    """The page with its substitutions as front matter; a page without any stays as it is.

    UserError for a fact that no page has, and where a sentence is not true of the published tables.
    """
    wanted = set(PLACE.findall(text))
    if not wanted:
        return text
    values = {**_facts(text), **_counts()}
    if unknown := sorted(wanted - values.keys()):
        raise UserError(f"intro.md names {unknown[0]}, which no page has: see publishing/front.py")
    broken = [sentence for sentence, holds in guards() if not holds]
    if broken:
        raise UserError(
            f"the front page says that {broken[0]}, and the published tables say otherwise: "
            "rewrite the sentence in book/intro.md and its guard in publishing/front.py"
        )
    given = {"myst": {"substitutions": {name: values[name] for name in sorted(wanted)}}}
    return f"---\n{yaml.safe_dump(given, allow_unicode=True, width=10_000)}---\n{text}"


def _facts(text: str) -> dict[str, str]:
    named: dict[int, set[str]] = {}
    for number, name in FACT.findall(text):
        named.setdefault(int(number), set()).add(name)
    return {f"p{number:02d}_{name}": str(value)
            for number, names in named.items()
            for name, value in _of_page(number).items() if name in names}  # fmt: skip


@cache
def _of_page(number: int) -> dict[str, str | float]:
    """A page's facts; none where there is no such page."""
    from headbook.chapters.chapter import find

    chapter = find(number)
    return chapter.facts(_tables(number)) if chapter else {}


@cache
def _tables(number: int) -> dict[str, Any]:
    from headbook.chapters.page import published_tables
    from headbook.old_results import study

    return published_tables(study(number))


@cache
def _counts() -> dict[str, str]:
    from headbook.claims import board, scorecard
    from headbook.claims.ledger import load

    ledger = load()
    results = scorecard.results(ledger, paths.RESULTS)
    shown = board.works_claims(ledger, results)
    marks = Counter(board.mark_of(each) for each in shown)
    named = {mark.replace(" ", "_"): str(marks[mark]) for mark in board.MEANINGS}
    strip = board.strip(ledger, results, SCORECARD)
    return {
        **named,
        "claims": str(len(shown)),
        "works": str(len({each.claim.work for each in shown})),
        "strip": f"```{{raw}} html\n{strip}\n```",
    }


def _of_neighbours(ways: Any) -> Iterator[tuple[str, bool]]:
    """Those about heads that our en→fr model grows, a table of pandas."""
    ours = ways[(ways["model"] == "mixture-fr-256") & (ways["update"] > 0)].sort_values("update")
    own, gold = (ours[ours["text"] == text] for text in ("held-out", "ewt-sample"))
    yield (
        "a neighbour's head rises and stays, in the first layer, short of the paper's role",
        own["neighbour"].iloc[0] < 0.5 < own["neighbour_low"].iloc[1:].min()
        and own["neighbour_high"].max() < 0.9
        and own["neighbour_layer"].max() == 1,
    )
    yield (
        "one that finds a verb's subject comes after the first snapshot",
        gold["syntactic_low"].iloc[0] <= 0 < gold["syntactic_low"].iloc[1:].min()
        and gold["relation"].iloc[-1] == "nsubj, head_to_dependent",
    )


def _of_pruned(functions: Any) -> tuple[str, bool]:
    """The one about the encoder heads of our en→fr model that gates leave, a table of pandas."""
    left = functions[functions["model"] == "mixture-fr-256"].sort_values("kept")["mean_neighbour"]
    return (
        "the fewer heads gates leave, the more these look at neighbours",
        bool(left.iloc[0] > 0.5 and left.iloc[:5].is_monotonic_decreasing),
    )


def guards() -> Iterator[tuple[str, bool]]:
    """Every sentence of the front page that a new result could make false, and whether it holds."""
    from headbook.results import published

    yield (
        "the sharpest head points at the previous token",
        _of_page(11)["en_place_1"] == "previous token",
    )
    yield (
        "no head of a small model trained here has a role",
        not (_tables(11)["roles"]["update"].astype(str) == "best").any(),
    )
    pruned = _tables(22)["released"].query("scope == 'all'")
    kept = pruned.groupby(["model", "order", "level"])["kept"].mean()
    yield (
        "half of the heads of en→pt can go for a tenth of BLEU, and not in random order",
        0.85 < kept["firefox-en-pt", "importance", 0.5] < 0.95
        and kept["firefox-en-pt", "random", 0.5] < 0.3,
    )
    yield "three tenths of pt→en's can", kept["firefox-pt-en", "importance", 0.3] > 0.9
    fifth = kept["mixture-fr-256", "importance", 0.2]
    yield "a fifth of our en→fr model's costs about a tenth", 0.85 < fifth < 0.95
    roles = published(18, "heads").query("role != 'none'")[["model", "layer", "head"]]
    named = "kind == 'encoder' and chosen == 'gates' and penalty == 0.015 and updates == 600"
    stays = published(18, "kept").query(f"model == 'firefox-en-pt' and {named}").merge(roles)
    yield (
        "gates keep all heads with a role, with each of three seeds",
        stays["seed"].nunique() == 3 and bool(stays["kept"].all()),
    )
    alone = _tables(20)["released"].query("kind == 'cross' and model.str.startswith('firefox')")
    lost = (alone["high"] / alone["whole_bleu"]).groupby(alone["model"]).min()
    yield "without one cross-attention head a student loses half of BLEU", lost.max() < -0.5
    rare = _tables(14)["released"].query("ranks == 'text' and scope == 'every layer'")
    students = rare[rare["model"].str.startswith("firefox")]
    yield "no head of the students points at rare words half the time", students["high"].max() < 0.5
    yield "no head carries most of its layer", _tables(16)["relevance"]["high"].max() < 0.5
    special = _tables(50)["claims"].query("model == 'minilm'").set_index("claim")["value"]
    yield (
        "half of the weight rests on special tokens, and little of what is moved comes from there",
        special["clark-half-on-special"] > 0.45 and special["kobayashi-special-short"] < 0.25,
    )
    yield from _of_neighbours(_tables(26)["ways"])
    yield _of_pruned(published(18, "functions"))
    asked = "model == 'mixture-fr-256' and question == 'fewer than half of the heads'"
    half = published(18, "summary").query(asked)
    yield (
        "fewer than half of our en→fr model's encoder heads are not enough",
        half["value_high"].item() < -0.25 and half["closed"].item() == "",
    )
    rollout = _tables(52)["claims"].query("claim == 'rollout-beats-raw' and corpus == 'released'")
    yield (
        "the last layer of a released model ranks words better than rollout",
        rollout["high"].max() < 0,
    )
    explained = _of_page(56)
    yield (
        "other weights give the same output where attention was uniform in training",
        float(explained["uniform_farthest"]) > 0.8 * float(explained["lstm_farthest"]),
    )
