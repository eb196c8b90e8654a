"""The first batches of a decoder: dissimilarity as the metrics have it, a falling loss."""

import pandas as pd
import pytest
import torch

from headbook.experiments import first_batches
from headbook.experiments.first_batches import DESCRIBED, PUBLISHED, Setting, train
from headbook.heads.diversity_in_training import diversity_in_training
from headbook.heads.four_metrics import DISSIMILARITY, RAW, four_metrics
from headbook.types import Kind

TEXT = "controlled-sov"


@pytest.mark.parametrize("name", [PUBLISHED, DESCRIBED])
def test_dissimilarity_is_that_of_the_metrics(name: str) -> None:
    setting = Setting(name, TEXT, segments=9, heads=4)
    segments, vocabulary = first_batches.segments_of(setting)
    model = first_batches.model_of(setting, vocabulary).train()
    batch = next(first_batches.batches_of(setting, segments))
    torch.manual_seed(1)
    found = first_batches.pairs(model, batch, setting)
    torch.manual_seed(1)
    if name == PUBLISHED:
        metrics = diversity_in_training(model, Kind.DECODER, batch)
    else:
        metrics = four_metrics(model, Kind.DECODER, [batch.select(slice(8))], forms={RAW})
    expected = metrics[DISSIMILARITY, RAW]
    torch.testing.assert_close(found, expected[:, *torch.triu_indices(4, 4, offset=1)])
    assert model.training


def test_the_loss_falls_and_only_as_published_there_is_padding() -> None:
    rows = {
        name: train(Setting(name, TEXT, segments=1), updates=8) for name in (PUBLISHED, DESCRIBED)
    }
    published, described = rows[PUBLISHED], rows[DESCRIBED]
    assert len(published) == 8 * 6 and published["padding"].max() > 0
    assert (described["padding"] == 0).all()
    for found in rows.values():
        assert found["loss"].iloc[-1] < found["loss"].iloc[0]
        assert found["mean"].abs().max() <= 1 and (found["variance"] > 0).all()


def test_a_training_is_repeated_and_one_pair_has_no_variance() -> None:
    setting = Setting(text=TEXT, heads=2, segments=1)
    first, again = (train(setting, updates=2) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    assert first["variance"].isna().all()
