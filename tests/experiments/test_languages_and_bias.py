"""Page 59: planted roles and planted bias are found; counts and effects follow by hand."""

from itertools import product

import numpy as np
import pytest

from headbook.corpora.winobias import FEMALE, MALE, Case, Version, cases
from headbook.experiments import pronouns
from headbook.experiments.genders import Translated, effects, genders
from headbook.experiments.pronouns import adjusted, drawn_again, mean, occupations
from headbook.experiments.shared_roles import MEAN, ROLES, left_out, matching, shared
from headbook.looking.word_weights import between, tokens_of
from headbook.results import table
from headbook.text.portuguese_gender import Gender
from headbook.types import UserError

LINES = (("[The driver] called the nurse because [{}] was late.", "he", "she"),
         ("The driver called [the nurse] because [{}] was asleep.", "she", "he"))  # fmt: skip
OWN = list(cases([(text.format(pro), text.format(anti)) for text, pro, anti in LINES]))
BOTH = [(case, pronoun) for case in (0, 1) for pronoun in (MALE, FEMALE)]


def reordered(scores: np.ndarray, order: np.ndarray) -> np.ndarray:
    return np.take_along_axis(scores, order[..., None], axis=1)


def test_matching_finds_heads_that_were_only_renumbered():
    noise = np.random.default_rng(0)
    first = noise.normal(size=(6, 8, 1)) + 0.05 * noise.normal(size=(6, 8, len(ROLES)))
    second = reordered(first, noise.permuted(np.tile(np.arange(8), (6, 1)), axis=1))
    assert np.array_equal(reordered(second, matching(first, second)), first)
    same, matched = shared(first, second), shared(first, left_out(first, second))
    same, matched = (each.set_index("role") for each in (same, matched))
    assert abs(same["value"][MEAN]) < 0.3 and matched["value"][MEAN] > 0.8
    assert same["p"].min() > 0.05 and (matched["p"].dropna() < 0.05).all()
    assert matched["chance"][MEAN] < matched["value"][MEAN]


def test_heads_without_common_profiles_stay_within_chance():
    """Matched on noise, left-out roles agree no better than in random orders."""
    first, second = np.random.default_rng(1).normal(size=(2, 6, 8, len(ROLES)))
    found = shared(first, left_out(first, second)).set_index("role").loc[MEAN]
    assert abs(found["value"]) < found["chance"]
    # On its own roles the same matching would agree, by selection alone.
    chosen = shared(first, reordered(second, matching(first, second))).set_index("role").loc[MEAN]
    assert chosen["value"] > found["chance"]


def test_weights_between_parts_of_a_sentence():
    spans = [(0, 3), (4, 6), (6, 9), None]
    assert tokens_of(spans, (4, 9)) == [1, 2]
    weights = np.arange(16.0).reshape(1, 4, 4)
    assert between(weights, [1, 2], [0, 3]).tolist() == [(4 + 7 + 8 + 11) / 2]
    with pytest.raises(UserError, match="characters 20 to 22"):
        tokens_of(spans, (20, 22))


def test_a_head_that_follows_stereotypes_is_told_from_one_that_finds_the_referent():
    """The first example's referent is stereotyped male, the second's female."""
    shares = np.array([[[0.8, 0.2], [0.2, 0.8]], [[0.9, 0.9], [0.9, 0.9]]])
    shares = np.moveaxis(shares, 0, -1)[:, :, None]
    assert pronouns.stereotyped(OWN, shares)[:, 0].tolist() == [pytest.approx([0.6, 0])] * 2
    assert pronouns.resolved(shares)[:, 0].tolist() == [pytest.approx([0, 0.4])] * 2


def test_what_an_occupation_brings_into_all_of_its_sentences_is_counted_once():
    names = [f"m{male:02d} f{female:02d}" for male, female in product(range(12), repeat=2)]
    versions = [Version(name, (0, 0), (0, 3), (4, 7)) for name in names]
    paired = [Case(MALE, {MALE: each, FEMALE: each}) for each in versions]
    noise = np.random.default_rng(0).normal(size=12)
    own = np.array([noise[int(occupations(case)[1][1:])] for case in paired])
    drawn = drawn_again(paired)
    spread = mean(drawn, own)[1:].std()
    assert spread == pytest.approx(noise.std() / np.sqrt(12), rel=0.15)
    assert spread > 2 * own.std() / np.sqrt(len(own))
    values = np.random.default_rng(0).normal(size=(len(paired), 20))
    values[:, 3] += 1
    found = adjusted(table({"head": range(20)}, value=mean(drawn, values)))
    assert np.flatnonzero(found < 0.05).tolist() == [3]


def test_genders_are_counted_by_hand():
    """The driver is masculine and the nurse feminine whatever the pronoun."""
    driver, nurse = Gender((0, 1), MALE), Gender((2, 3), FEMALE)
    pairs = ((driver, nurse), (nurse, driver))
    rows = [Translated(case, pronoun, "", *pairs[case]) for case, pronoun in BOTH]
    found = genders(OWN, rows).set_index("of")["value"]
    assert found["all sentences"] == found["male pronoun"] == 0.5
    assert (found["pro-stereotypical"], found["anti-stereotypical"]) == (1, 0)
    assert (found["pro minus anti"], found["male minus female"]) == (1, 0)
    assert found["the referent follows"] == 0
    unread = [*rows[:3], Translated(1, FEMALE, "", nurse, None)]
    assert genders(OWN, unread)["unread"].iloc[0] == 1


def test_effects_by_hand():
    rows = [Translated(case, pronoun, "", None, None) for case, pronoun in BOTH]
    # The referent is the driver, then the nurse; (referent, other) for a male and female pronoun.
    odds = np.array([[5.0, -1.0], [1.0, -3.0], [0.0, 4.0], [-4.0, 4.0]])
    found = effects(OWN, rows, odds, np.array([1.0, 3.0, 1.0, 1.0]))
    assert found["stereotype"].tolist() == [3 + 2, 4 + 2]
    assert found["agreement"].tolist() == [4, 4] and found["leak"].tolist() == [2, 0]
    assert found["loss"].tolist() == [2, 1]
