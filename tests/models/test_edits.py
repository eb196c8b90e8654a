"""Edits: what an edit of weights and contexts does to a block, and that it comes off again."""

import pytest
import torch
from blocks import ragged, tiny
from refusing import refused
from torch import Tensor

from headbook.models.attention import AttentionPath
from headbook.models.capture import Point, capture
from headbook.models.edits import edited
from headbook.types import Kind

PLACE = (Kind.ENCODER, 1)


BATCH = ragged((5, 3), (4, 2))


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_new_weights_meet_the_values_on_any_path(path: str) -> None:
    model = tiny(path=AttentionPath(path)).eval()
    given: list[Tensor] = []

    def uniform(weights: Tensor) -> Tensor:
        real = (weights > 0).to(weights)
        given.append(real / real.sum(-1, keepdim=True))
        return given[-1]

    points = {Point.WEIGHTS, Point.VALUES, Point.CONTEXT}
    with edited(model, {PLACE: {Point.WEIGHTS: uniform}}), capture(model, points) as tape:
        recorded = model(BATCH)
    assert tape[PLACE[0], Point.WEIGHTS][1] is given[0]
    torch.testing.assert_close(tape[PLACE[0], Point.CONTEXT][1],
                               given[0] @ tape[PLACE[0], Point.VALUES][1])  # fmt: skip
    with edited(model, {PLACE: {Point.WEIGHTS: uniform}}):
        torch.testing.assert_close(model(BATCH), recorded)
    assert not any(block.edits for _, _, block in model.attentions())


def test_what_cannot_be_edited_is_refused() -> None:
    with refused("no encoder attention in layer 9"), edited(tiny(), {(Kind.ENCODER, 8): {}}):
        pass
