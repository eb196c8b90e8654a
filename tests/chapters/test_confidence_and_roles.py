"""Page 11: scores of real heads against other means, and claims and marks of planted ones."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from headbook.chapters.specialised_heads import confidence_and_roles as page
from headbook.chapters.specialised_heads._released import ENGLISH, read, trees_of
from headbook.chapters.specialised_heads._role_claims import role_claims
from headbook.chapters.specialised_heads._roles import Roles
from headbook.heads.measure import RatioSums, Selection
from headbook.heads.positional import Place, best_offset
from headbook.heads.roles import roles
from headbook.looking.load import load

SENTENCES = 30


@pytest.fixture(scope="module")
def found() -> Roles:
    reading = read(load("firefox-en-pt"), "ewt-sample", trees_of("ewt-sample", SENTENCES))
    return Roles.of(reading)


def test_every_head_has_its_interval_and_its_best_farther_offset(found: Roles) -> None:
    heads = page._heads(found)
    assert len(heads) == 48
    assert heads["confidence"].between(heads["confidence_low"], heads["confidence_high"]).all()
    best = best_offset(found.sums["positional"], Place.OTHER, Selection.EVERYTHING)
    assert heads["other_offset"].tolist() == best.offset.flatten().tolist()
    assert heads["other"].tolist() == pytest.approx(best.share.flatten().tolist())


def test_roles_of_one_half_are_looked_for_on_the_other(found: Roles) -> None:
    sets = []
    for half in (0, 1):
        values = {name: each.ratio(half) for name, each in found.sums.items()}
        reach = values["positional"].shape[-1] // 2
        held = roles(values["positional"], torch.arange(-reach, reach + 1), values["syntactic"],
                     values["offsets"].nan_to_num(-1).amax(0), values["rare"])  # fmt: skip
        sets.append({(each.layer, each.head) for each in held})
    (row,) = [row for row in page._counts(found) if row["role"] == "any"]
    assert sets[0] and row["first_half"] == len(sets[0])
    assert row["again"] == len(sets[0] & sets[1])


def planted(
    found: Roles, sharp: list[float], shares: list[float], offset: int = -1, rare: float = 0.0
) -> Roles:
    """One layer of heads with these confidences and shares at an offset, on the parallel text."""

    def sums(values: torch.Tensor) -> RatioSums:
        whole = values.double().expand(2, 4, *values.shape).clone()
        return RatioSums(whole, torch.ones_like(whole))

    heads = len(sharp)
    positional = torch.zeros(1, heads, 11)
    positional[0, :, 5 + offset] = torch.tensor(shares)
    pointing = torch.zeros(1, heads, 2)
    pointing[0, 0, 1] = rare
    made = {"confidence": sums(torch.tensor([sharp])), "positional": sums(positional),
            "syntactic": sums(torch.zeros(1, heads, 8)), "rare": sums(pointing),
            "offsets": sums(torch.full((41, 8), 0.5))}  # fmt: skip
    return Roles(replace(found.reading, text=ENGLISH), made)


def claims_of(planted: Roles) -> pd.DataFrame:
    rows = pd.DataFrame(role_claims(planted)).set_index("claim")
    return rows.rename(lambda name: name.removeprefix("voita-"))


def test_claims_of_planted_heads_are_known(found: Roles) -> None:
    rows = claims_of(planted(found, [0.3, 0.95, 0.85, 0.75], [0.1, 0.99, 0.92, 0.2], rare=0.6))
    assert rows["value"].to_dict() == pytest.approx({
        "f1b-positional-confident": 0.85, "f1b-few-confident": 0.75,
        "f1b-confident-are-positional": 1.0, "f1b-rare-not-confident": 0.3 - 0.7125,
        "f1c-positional": 2, "f1c-positional-adjacent": 1.0, "f1c-both-neighbours": 1,
        "f1c-syntactic": 0, "f1c-rare": 1, "f1c-unclassified": 0.25,
    })  # fmt: skip
    assert set(rows["closed"]) == {"none"}


def test_the_most_confident_may_be_others(found: Roles) -> None:
    rows = claims_of(planted(found, [0.9, 0.2, 0.8, 0.1], [0.0, 0.99, 0.92, 0.2]))
    assert rows.loc["f1b-confident-are-positional", "value"] == 0.5
    assert rows.loc["f1b-positional-confident", "value"] == pytest.approx(0.2)
    assert rows.loc["f1b-rare-not-confident", "closed"] == "present: no rare-word head"


@pytest.mark.parametrize("offset", [0, 2])
def test_a_head_at_its_own_token_has_no_role(found: Roles, offset: int) -> None:
    rows = claims_of(planted(found, [0.9, 0.95], [0.2, 0.99], offset))
    assert rows.loc["f1c-positional", "value"] == 0 and rows.loc["f1c-unclassified", "value"] == 1
    assert rows.loc["f1c-positional-adjacent", "value"] == 0
    assert rows.loc["f1c-positional-adjacent", "closed"] == "none"
    for name in ("f1b-positional-confident", "f1b-confident-are-positional"):
        assert pd.isna(rows.loc[name, "value"])
        assert rows.loc[name, "closed"] == "present: no positional head"


def test_no_claim_rests_on_the_sample(found: Roles) -> None:
    assert not list(role_claims(found))


def test_nulls_and_random_heads_of_a_model(found: Roles) -> None:
    nulls = page._nulls(found.reading.first(8), 1).set_index("score")
    assert set(nulls.index) == {*page.SCORES, page.WITH_ROLE} and set(nulls["heads"]) == {48}
    assert nulls.loc[page.WITH_ROLE, "random"] == 0
    assert nulls.loc[["previous", "next", "own", "other"], "random"].max() < 0.3


def test_the_largest_of_planted_values_and_the_heads_with_a_role() -> None:
    values = {"confidence": torch.zeros(2, 1, 3), "positional": torch.zeros(2, 1, 3, 11),
              "syntactic": torch.zeros(2, 1, 3, 8), "rare": torch.zeros(2, 1, 3, 2)}  # fmt: skip
    values["confidence"][1, 0, 2] = 0.8
    values["positional"][0, 0, 0, 4], values["positional"][0, 0, 1, 5] = 0.95, 0.99
    values["positional"][1, 0, 0, 8] = 0.7
    values["syntactic"][0, 0, 2, 3], values["rare"][1, 0, 1, 1] = 0.65, 0.5
    found = page._largest(values, torch.full((8,), 0.5))
    assert found == pytest.approx({
        "confidence": 0.8, "previous": 0.95, "next": 0, "own": 0.99, "other": 0.7, "margin": 0.15,
        "rare": 0.5, page.WITH_ROLE: 2,
    })  # fmt: skip


def test_a_mark_is_the_role_or_in_brackets_the_most_frequent_place() -> None:
    blank = {"role": "none", "confidence": 0.8, "previous": 0.1, "next": 0.2, "own": 0.6,
             "other": 0.1, "other_offset": -2, "relation": "verb → object"}  # fmt: skip
    marks = [page._mark(blank | changed) for changed in (
        {}, {"confidence": 0.4}, {"role": "previous token"}, {"role": "syntactic"},
        {"next": 0.7}, {"other": 0.9})]  # fmt: skip
    assert marks == ["(0)", "", "−1", "v→o", "(+1)", "(−2)"]


def test_models_trained_here_are_read_by_their_best_offset() -> None:
    rows = [("m", 1, 2, 0.4, 0.7, None, None), ("m", 2, 1, 0.8, None, None, 0.1),
            ("n", 3, 1, 0.5, None, 0.4, None), ("n", 1, 1, 0.3, 0.2, None, None)]  # fmt: skip
    names = ["model", "layer", "head", "confidence", "own", "neighbour", "other"]
    scores = pd.DataFrame(rows, columns=names).assign(kind="encoder", update="best")
    shown = page.young({"scores": scores})
    assert shown["head"].tolist() == ["L2H1", "L3H1"] and shown["confident"].tolist() == [0.5, 0]
    assert shown["place"].tolist() == ["own", "neighbour"] and shown["steady"].iloc[0] == "L1H2"


def test_the_papers_map_agrees_with_the_ledger() -> None:
    known = page.paper()
    marked = known[known["mark"].isin(["−1", "+1"])]["confidence"].tolist()
    claims = page.ledger()
    assert marked == list(claims.claim("voita-f1b-positional-confident").paper[-1].values)
    share = (known["confidence"] >= page.CONFIDENT).mean()
    assert share == pytest.approx(
        claims.claim("voita-f1b-few-confident").paper[0].values[0], abs=0.01
    )
