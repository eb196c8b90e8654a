"""Page 02: the measures agree with counts by hand, and a fault anywhere turns the page red."""

import math
from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest
import torch

from headbook.chapters.anatomy import _expected as expected
from headbook.chapters.anatomy import _planted as planting
from headbook.chapters.anatomy import do_the_measures_work as page
from headbook.chapters.anatomy._expected import Looking, Sentence, Trial, expectation
from headbook.chapters.anatomy._sample import LONG, Text, sample
from headbook.chapters.chapter import find
from headbook.heads import planted
from headbook.heads.positional import Place, best_offset
from headbook.models.capture import Point
from headbook.runs.store import Store
from headbook.types import Kind

SENTENCES = 50
# "she / re|ads / books": the verb is two pieces, its object one
SMALL = Sentence((3, 0, 4, 7), (0, 1, 1, 2), (("nsubj", 0, 1), ("dobj", 2, 1)))


@pytest.fixture(scope="module")
def text() -> Text:
    return sample(SENTENCES)


@pytest.fixture(scope="module")
def known(text):
    return planting.expectations(text)


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, pd.DataFrame]:
    store = Store(tmp_path_factory.mktemp("store"))
    return page.compute(page.Parameters(sentences=SENTENCES, random_heads=16), store)


def wrong(known, text, **fault) -> list[dict]:
    make, alter = planting.RIGHT["right"]
    case = {"it": (fault.get("make", make), fault.get("alter", alter))}
    rows = page.planted_rows(known, planting.by_name(planting.measured(text, 0, case)["it"]))
    return [row for row in rows if not row["found"]]


def looking(rows) -> Looking:
    return Looking(SMALL, tuple(rows(SMALL)))


# ------------------------------------------------------------------ the answers counted by hand


def test_planted_rows_by_hand() -> None:
    eos = {4: 1.0}
    assert expected.at_offset(-1)(SMALL) == [eos, {0: 1.0}, {1: 1.0}, {2: 1.0}, eos]
    assert expected.at_partner("dobj", True)(SMALL) == [eos, {3: 1.0}, {3: 1.0}, eos, eos]
    verb = {1: pytest.approx(2 / 3), 2: pytest.approx(1 / 3)}
    assert expected.at_partner("dobj", False)(SMALL) == [eos, eos, eos, verb, eos]
    assert expected.at_rarest(SMALL) == [{3: 1.0}] * 5
    assert expected.uniform(SMALL)[2] == dict.fromkeys(range(5), 0.2)


def test_trials_by_hand() -> None:
    previous, object_ = looking(expected.at_offset(-1)), looking(expected.at_partner("dobj", True))
    assert [trial.clean for trial in expected.confidence(previous)] == [0, 1, 1, 1]
    assert list(expected.offset(previous, -1)) == [Trial(1.0, 0.25)] * 3
    assert list(expected.offset(previous, 1)) == [Trial(0.0, 0.25)] * 3
    # both pieces of the verb must agree, or the other one must look at no word
    assert list(expected.relation(object_, "dobj", True)) == [Trial(1.0, 0.25, 2, 2)]
    assert list(expected.relation(previous, "dobj", True)) == [Trial(0.0, 0.25, 2, 0)]
    assert list(expected.relation(object_, "nsubj", True)) == [Trial(0.0, 0.25, 2, 0)]
    assert list(expected.relation(object_, "dobj", False)) == [Trial(0.0, 0.5)]
    assert [trial.clean for trial in expected.rare(previous, 1, 5)] == [0, 0, 0, 0]
    assert list(expected.rare(previous, 2, 5)) == [
        Trial(0.0, 0.5), Trial(0.0, 0.5), Trial(0.0, 0.5), Trial(1.0, 0.5),
    ]  # fmt: skip
    assert not list(expected.rare(previous, 1, 8))  # no token outside the top
    uniform = looking(expected.uniform)
    assert [trial.clean for trial in expected.entropy(uniform)] == [pytest.approx(math.log(5))] * 5
    assert uniform.favourites == [None] * 4


@pytest.mark.parametrize("noise", [0.1, 0.5])
@pytest.mark.parametrize("trial", [Trial(1.0, 0.2), Trial(0.3, 1.0), Trial(1.6, 0.0)])
def test_moments_are_those_of_draws(trial, noise) -> None:
    generator = torch.Generator().manual_seed(0)
    hit = torch.rand(200_000, generator=generator) < noise
    right = torch.rand(200_000, generator=generator) < trial.chance
    drawn = torch.where(hit, right.double(), trial.clean)
    mean, variance = trial.moments(noise)
    assert mean == pytest.approx(float(drawn.mean()), abs=0.005)
    assert variance == pytest.approx(float(drawn.var()), abs=0.01)


def test_two_pieces_are_the_moments_of_two_draws() -> None:
    """A piece that is hit looks at the answer in one case of five."""
    generator = torch.Generator().manual_seed(0)
    hit = torch.rand(200_000, 2, generator=generator) < 0.4
    right = torch.rand(200_000, 2, generator=generator) < 0.2
    both = torch.where(hit, right, torch.tensor(True)).all(1)
    assert Trial(1.0, 0.2, 2, 2).moments(0.4)[0] == pytest.approx(
        float(both.double().mean()), abs=0.005
    )


def test_the_allowed_distance_is_rarely_passed_and_none_without_noise() -> None:
    trials = Counter({Trial(1.0, 0.1): 300, Trial(0.0, 0.05): 100})
    assert expectation(trials, 0.0, 1).allowed == 0 and expectation(trials, 0.0, 1).mean == 0.75
    must = expectation(trials, 0.2, 1)
    chances = torch.tensor([0.82] * 300 + [0.01] * 100)
    drawn = torch.rand(4000, 400, generator=torch.Generator().manual_seed(1)) < chances
    off = (drawn.double().mean(1) - must.mean).abs()
    assert float((off > must.allowed).double().mean()) <= 0.05
    # and it is not so wide that nothing could be wrong
    assert must.allowed < 3 * float(drawn.double().mean(1).std())
    assert expectation(trials, 0.2, 1000).allowed > must.allowed


# ------------------------------------------------------------------ the sample


def test_long_words_are_two_pieces_and_ids_go_by_frequency(text) -> None:
    counts = Counter(token for each in text.sentences for token in each.tokens)
    assert [token for token, _ in counts.most_common(3)] == [0, 1, 2]
    pieces = Counter(Counter(word for word in each.words).most_common(1)[0][1]
                     for each in text.sentences)  # fmt: skip
    assert set(pieces) == {1, 2} and LONG == 6
    first = text.batches[0]
    number = int(first.sentences[0])
    ids = first.source[0][first.source_mask[0]][:-1]
    assert text.ranks[ids].tolist() == list(text.sentences[number].tokens)


# ------------------------------------------------------------------ the page


def test_every_value_is_found(tables) -> None:
    every = tables["planted"]
    assert every["found"].all() and every["head"].nunique() == 9
    clean = every[every["noise"] == 0]
    assert ((clean["value"] - clean["expected"]).abs() <= planting.ROUNDING).all()
    own = clean[clean["own"] & (clean["head"] != "uniform")]
    assert len(own) == 8 and (own["value"] > 0.999).all()
    # where nothing was hit, resampling sentences cannot know of more
    often = every[(every["noise"] > 0) & (every["expected"] * every["count"] >= 5)]
    assert len(often) > 200 and often["covered"].mean() > 0.9


def test_planted_heads_get_their_roles_and_no_other(tables) -> None:
    clean = tables["roles"].query("noise == 0")
    assert sorted(zip(clean["head"], clean["role"], clean["detail"], strict=True)) == [
        ("next token", "positional", "+1"),
        ("object of the verb", "syntactic", "dobj head_to_dependent"),
        ("previous token", "positional", "-1"),
        ("rarest token", "rare", "one of two rarest"),
        ("verb of the object", "syntactic", "dobj dependent_to_head"),
    ]
    half = tables["roles"].query("noise == 0.5")
    assert not (half["role"] == "positional").any()


def test_own_token_neighbour_and_other_offsets_are_told_apart(text) -> None:
    right = planting.measured(text, 0, planting.RIGHT)["right"]
    sums = right["positional"].sums()
    for number, (place, offset) in enumerate(
        [
            (Place.OWN, 0),
            (Place.NEIGHBOUR, -1),
            (Place.NEIGHBOUR, 1),
            (Place.OTHER, -2),
            (Place.OTHER, 2),
        ]
    ):
        for other in Place:
            best = best_offset(sums, other)
            if other is place:
                assert (best.offset[:, number] == offset).all() and best.share[0, number] == 1
            else:
                assert best.share[0, number] == 0 and best.share[3, number] < 0.15


def test_random_heads_reach_no_threshold(tables) -> None:
    random = tables["random_heads"].dropna(subset="threshold")
    assert len(random) == 11 + 8 + 1 and (random["best"] < random["threshold"] - 0.1).all()


def test_a_head_among_the_random_ones_would_be_seen(text, monkeypatch) -> None:
    real = page.random_heads

    def with_one(batch, kind, layers):
        tape = real(batch, kind, layers=layers - 1)
        previous = planted.at_offset(batch, -1)[:, None]
        return {at: [*drawn, previous] for at, drawn in tape.items()}

    monkeypatch.setattr(page, "random_heads", with_one)
    rows = pd.DataFrame(page.random_rows(text, page.offset_accuracy(text), 4))
    above = rows[rows["best"] >= rows["threshold"]]
    assert above["measure"].tolist() == ["neighbour, −1"]


@pytest.mark.parametrize("fault", list(planting.FAULTS))
def test_a_faulty_measure_is_seen(tables, fault) -> None:
    rows = tables["faults"].set_index("fault")
    assert rows.loc[fault, "wrong_without_noise"] >= 3
    assert rows.loc[fault, "wrong"] >= rows.loc[fault, "wrong_without_noise"]


def test_a_measure_without_its_padding_mask_is_seen(text, known, monkeypatch) -> None:
    """Rows of padding point at the first token; counted, they are a fault."""
    from headbook.heads import tokens

    real = tokens.counted_queries
    for module in ("confidence", "positional", "rare"):
        monkeypatch.setattr(
            f"headbook.heads.{module}.counted_queries",
            lambda batch, kind, counting: torch.ones_like(real(batch, kind, counting)),
        )
    assert len(wrong(known, text)) > 20


def test_twice_the_noise_is_seen(text, known, monkeypatch) -> None:
    real = planted.with_noise
    monkeypatch.setattr(
        planted, "with_noise", lambda batch, head, share, seed: real(batch, head, 2 * share, seed)
    )
    found = wrong(known, text)
    assert found and all(row["noise"] > 0 for row in found)


def test_a_head_planted_elsewhere_is_seen(text, known, monkeypatch) -> None:
    heads = list(planting.HEADS)
    heads[1] = replace(heads[1], weights=heads[2].weights)
    monkeypatch.setattr(planting, "HEADS", tuple(heads))
    assert {row["head"] for row in wrong(known, text)} == {"previous token"}


def test_nothing_is_wrong_without_a_fault(text, known) -> None:
    assert not wrong(known, text)
    tape = planted.recording([planting.HEADS[0].weights(text.batches[0], text)])
    assert list(tape) == [(Kind.ENCODER, Point.WEIGHTS)]


def test_the_chapter_declares_itself_and_its_facts(tables) -> None:
    chapter = find("02_do_the_measures_work")
    assert chapter is not None and chapter.number == 2 and chapter.title.endswith("?")
    facts = chapter.facts(tables)
    assert facts["found"] == facts["values"] and facts["faults"] == facts["faults_seen"] == "5"
    assert facts["random_above"] == "0" and facts["random_heads"] == "16"
    assert all(isinstance(value, str) for value in facts.values())


def test_a_seed_decides_the_noise(tables, text) -> None:
    def value(seed: int) -> float:
        right = planting.measured(text, seed, planting.RIGHT)["right"]
        found = planting.by_name(right)["own token"][0]
        return float(found[3, 0])

    own = tables["planted"].query("head == 'own token' and measure == 'own token' and noise == 0.5")
    assert value(0) == own["value"].item() != value(1)


def test_tables_of_the_page(tables) -> None:
    own = page.own(tables)
    shares = own["share"].str.replace("\N{NO-BREAK SPACE}", " ")
    assert len(own) == 8 * 4 and set(shares) == {
        "no noise", "10 % noise", "25 % noise", "50 % noise"
    }  # fmt: skip
    values = page.every_value(tables, 0.0).set_index("measure")
    assert values.loc["neighbour, −1", "previous token"] == "100 / 100"
    assert list(values.columns) == [head.name for head in planting.HEADS]
    given = page.given_roles(tables).set_index("head")
    assert given.loc["previous token", "0\N{NO-BREAK SPACE}%"] == "positional (−1)"
    assert (given.loc["own token"] == "none").all() and len(given) == 9
    faults = page.seen_faults(tables)
    assert len(faults) == 5 and all(" of " in cell for cell in faults["wrong values"])
    random = page.random_beside_thresholds(tables).set_index("measure")
    assert random.loc["neighbour", "threshold"] == "90\N{NO-BREAK SPACE}%"
    assert len(random) == 3 + 8 + 1
