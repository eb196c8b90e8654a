"""Every counted claim of data/claims.yml: an effect that is planted passes its rule, a null does
not, and the numbers of the work that makes the claim pass it."""

import pytest
from claims import planted_heads, planted_pruning, planted_trainings
from claims.simulated import counted, numbers_of_the_work, outcomes

from headbook.claims.rule import Outcome

CLAIMS = counted(lambda study: study[0] in "0123")
WORLDS = (*planted_heads.WORLDS, *planted_pruning.WORLDS, *planted_trainings.WORLDS)
PLANTED = {claim: world for world in WORLDS for claim in world.claims}
NOT_PLANTED = {
    "voita-f2-same-share-of-roles": "not run: no two converged models of one collection of texts",
    "voita-t1-nsubj-easier-in-short": "not run: no two converged models of short and long texts",
    "michel-f2-same-heads-elsewhere": "not run: no model whose BLEU was measured on two texts",
    "voita-s4-relevance-agrees-with-ablation": "not run: no converged model",
    "voita-s4-confidence-agrees-with-ablation": "not run: no converged model",
    "michel-s4-importance-agrees-with-ablation": "not run: no converged model",
    "voita-s4-least-relevant-can-go-together": "not run: no converged model",
}
"""Claims without a world, and why: a debt."""

MEAN_SCORE = "scores in which more is better, where ours are nats a token"
NOT_COMPARABLE = {
    "gqa-close-to-full": MEAN_SCORE,
    "gqa-multi-query-worse": MEAN_SCORE,
    "delight-as-good-and-lighter": MEAN_SCORE,
    "xray-attention-still-in-first-layer-published": "two ratios, of which ours is a difference",
    "xray-attention-still-in-first-layer-described": "two ratios, of which ours is a difference",
}
"""Claims whose numbers of the work are in another unit than the rule's."""
CONTRASTS = ("the same with its runs without dropout among them",)
"""Numbers that the ledger has of a work's data beyond the runs that the work draws on."""


def test_every_counted_claim_is_planted() -> None:
    assert not PLANTED.keys() & NOT_PLANTED.keys()
    assert PLANTED.keys() | NOT_PLANTED.keys() == CLAIMS.keys()


@pytest.mark.parametrize("claim", PLANTED)
def test_a_planted_effect_passes(claim: str) -> None:
    found = outcomes(PLANTED[claim], claim, so=True)
    assert Outcome.PASS in found and set(found) <= {Outcome.PASS, Outcome.OUTSIDE}


@pytest.mark.parametrize("claim", PLANTED)
def test_without_the_effect_nothing_passes(claim: str) -> None:
    found = outcomes(PLANTED[claim], claim, so=False)
    assert found and Outcome.PASS not in found


@pytest.mark.parametrize("claim", [each for each in CLAIMS if CLAIMS[each].paper])
def test_the_works_own_numbers_pass(claim: str) -> None:
    found = dict(numbers_of_the_work(CLAIMS[claim]))
    if claim in NOT_COMPARABLE:
        assert found
        return
    compared = {of: each for of, each in found.items() if not of.startswith(CONTRASTS)}
    assert compared and set(compared.values()) == {Outcome.PASS}, compared
