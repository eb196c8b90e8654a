"""Page 37's trainings: a rate of nothing drops nothing, and what is closed costs as it should."""

import pytest
from small import backwards, write_pairs

from headbook.experiments import drop_head
from headbook.experiments.dropping_heads import Setting

WORDS = ["the", "a", "old", "red", "dog", "cat", "man", "ball", "house", "sees", "likes", "finds"]


def test_models_of_a_schedule(tmp_path_factory: pytest.TempPathFactory):
    rows = [[WORDS[(at + 5 * step) % 12] for step in range(4 + at % 3)] for at in range(84)]
    corpus = write_pairs(tmp_path_factory.mktemp("text") / "corpus", backwards(rows), 60, 12)
    tiny = Setting(str(corpus), 60, 16, 16, 2, 0.0, 30, 0.8, 4, 0.0, 15, 4, 2, 2, (0.0, 0.5), 2)
    schedules = (("no DropHead", 0.0), ("V", 0.0), ("one rate", 0.9))
    quality, removed, layers = drop_head.sweep(1, tiny, schedules)
    nats = quality.set_index("schedule")[["train_nats", "valid_nats", "test_nats"]]
    assert nats.loc["V"].equals(nats.loc["no DropHead"]) and nats["train_nats"].max() < 4
    assert nats.loc["one rate", "train_nats"] > nats.loc["V", "train_nats"]
    assert removed.groupby(["schedule", "share"])["nats"].nunique().max() == 2  # one per order
    assert removed.query("share == 0").groupby("schedule")["nats"].nunique().max() == 1
    assert layers["layer"].tolist() == [1] * 3 + [2] * 3
    assert layers["dissimilarity"].between(-1, 1).all()
