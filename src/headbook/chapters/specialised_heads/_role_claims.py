"""Claims of Figures 1b and 1c of Voita et al. 2019, from the roles of a released model."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.chapters.specialised_heads._released import PARALLEL
from headbook.chapters.specialised_heads._roles import ONE_OF_TWO, THRESHOLDS, Roles
from headbook.chapters.tables import released_claim
from headbook.claims.gates import NONE
from headbook.heads.positional import Place, at_place
from headbook.heads.roles import Role
from headbook.statistics import interval

CONFIDENT = 0.70
"""The ledger's threshold of a confident head (claim voita-f1b-few-confident)."""


def role_claims(roles: Roles) -> Iterator[dict[str, object]]:
    """One row per claim for each translation model on the parallel text in its language."""
    model = roles.reading.model
    if roles.reading.text not in PARALLEL or not model.languages[1]:
        return
    held = roles.held
    there = {role: bool(each[0].any()) for role, each in held.items()}
    positional = "" if there[Role.POSITIONAL] else "present: no positional head"
    rare = "" if there[Role.RARE] else "present: no rare-word head"
    shares = roles.sums["positional"].replicates()
    fixed = (shares >= THRESHOLDS.positional).any(-1)
    neighbours = (at_place(shares, Place.NEIGHBOUR) >= THRESHOLDS.positional).any(1).any(1)
    confidence = roles.sums["confidence"].replicates()
    alone = 1 - torch.stack(list(held.values())).any(0).double().mean((1, 2))
    counts = {role: each.double().sum((1, 2)) for role, each in held.items()}
    found = {
        "voita-f1b-positional-confident": (_least_confident(roles), positional),
        "voita-f1b-few-confident": ((confidence >= CONFIDENT).double().mean((1, 2)), ""),
        "voita-f1b-confident-are-positional": (_also_positional(roles), positional),
        "voita-f1b-rare-not-confident": (_rare_over_mean(roles), rare),
        "voita-f1c-positional": (counts[Role.POSITIONAL], ""),
        "voita-f1c-positional-adjacent": (
            counts[Role.POSITIONAL] / fixed.double().sum((1, 2)),
            "" if bool(fixed[0].any()) else "present: no head at one fixed offset",
        ),
        "voita-f1c-both-neighbours": (neighbours.double().sum(-1), ""),
        "voita-f1c-syntactic": (counts[Role.SYNTACTIC], ""),
        "voita-f1c-rare": (counts[Role.RARE], ""),
        "voita-f1c-unclassified": (alone, ""),
    }
    for claim, (values, closed) in found.items():
        yield released_claim(
            claim, model.name, *interval(values), target=model.languages[1], closed=closed or NONE
        )


def _least_confident(roles: Roles) -> Float[Tensor, " replicate"]:
    """Confidence of the positional head that has least of it; NaN without a positional head."""
    confidence, held = roles.sums["confidence"].replicates(), roles.held[Role.POSITIONAL][0]
    if not held.any():
        return torch.full((len(confidence),), torch.nan, dtype=confidence.dtype)
    least = confidence[0].masked_fill(~held, torch.inf).argmin()
    return confidence.flatten(1)[:, least]


def _also_positional(roles: Roles) -> Float[Tensor, " replicate"]:
    """Of the k most confident heads the share of positional ones, k being the number of these."""
    found = []
    pairs = zip(roles.sums["confidence"].replicates(), roles.held[Role.POSITIONAL], strict=True)
    for confidence, held in pairs:
        top = confidence.flatten().topk(int(held.sum())).indices
        found.append(held.flatten()[top].double().mean())
    return torch.stack(found)


def _rare_over_mean(roles: Roles) -> Float[Tensor, " replicate"]:
    """Confidence of the head that points most at rare tokens, minus the mean of all heads."""
    confidence = roles.sums["confidence"].replicates().flatten(1)
    top = roles.sums["rare"].ratio()[..., ONE_OF_TWO].nan_to_num(-1).argmax()
    return confidence[:, top] - confidence.mean(1)
