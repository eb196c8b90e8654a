"""The measuring pass over a real, tiny transformer."""

import torch
from blocks import tiny

from headbook.heads.collect import recordings
from headbook.heads.measure import sums
from headbook.heads.scores import confidence
from headbook.models.capture import Point, capture


def test_recordings_are_the_models_own_without_dropout_or_with(corpus) -> None:
    model, batch = (
        tiny(dropout=0.5, source_vocabulary=1000, target_vocabulary=1000).train(),
        corpus.batch([0, 8, 12]),
    )
    found = sums({"": confidence}, recordings(model, [batch]))[""].ratio()
    assert model.training
    with torch.no_grad(), capture(model.eval(), {Point.WEIGHTS}) as tape:
        model(batch)
    assert torch.allclose(found, sums({"": confidence}, [(tape, batch)])[""].ratio())
    dropped = sums({"": confidence}, recordings(model, [batch], training=True))[""].ratio()
    assert not model.training and not torch.allclose(found, dropped)
