"""The training loop: what is lost, kept and refused."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headbook.models import checkpoint
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, Batch, collate
from headbook.training.config import TrainingConfig
from headbook.training.loop import RISE, Start, Trainer, snapshot_name
from headbook.training.precision import Precision
from headbook.types import UserError

VOCABULARY = 12
ROUNDING = 1e-5
"""Relative; sums of 32-bit logarithms against the same in 64 bits."""


def tiny(dropout: float = 0.0) -> Transformer:
    torch.manual_seed(3)
    shape = {"width": 16, "feed_forward": 32, "heads": 2, "dropout": dropout}
    return Transformer(TransformerConfig(VOCABULARY, VOCABULARY, 1, 1, **shape))


def copies(count: int) -> list[tuple[list[int], list[int]]]:
    """Sentences of two pieces to be repeated."""
    drawn = torch.randint(3, VOCABULARY, (count, 2), generator=torch.Generator().manual_seed(1))
    return [([*row, EOS], [*row, EOS]) for row in drawn.tolist()]


def trainer(folder: Path, updates: int = 4, dropout: float = 0.0, **options: object) -> Trainer:
    chosen = {"tokens": 24, "warmup": 20, "precision": Precision.FULL} | options
    config = TrainingConfig(updates, **chosen)
    return Trainer(tiny(dropout), config, copies(40), copies(8), folder)


def test_smoothed_loss_by_hand(tmp_path: Path):
    """(1 - e) · -log p(right) + e · mean over the vocabulary of -log p, over real targets only."""
    made = trainer(tmp_path)
    made.model.eval()
    batch = collate([([4, 5, EOS], [6, EOS]), ([7, EOS], [8, 9, 10, EOS])], [0, 1])
    logs = made.model(batch).detach().double().log_softmax(-1)
    expected = 0.0
    for row, targets in enumerate([[6, EOS], [8, 9, 10, EOS]]):
        for position, right in enumerate(targets):
            here = logs[row, position]
            expected += 0.9 * -float(here[right]) + 0.1 * -float(here.mean())
    assert float(made._loss(batch, 0.1).detach()) == pytest.approx(expected, rel=ROUNDING)


def test_the_loss_ignores_padding_and_counts_the_end(tmp_path: Path):
    made = trainer(tmp_path)
    made.model.eval()
    short, long = ([4, EOS], [6, EOS]), ([5, 6, 7, EOS], [5, 6, 7, 8, EOS])
    alone = sum(float(made._loss(collate([pair], [0]), 0.1).detach()) for pair in (short, long))
    together = float(made._loss(collate([short, long], [0, 1]), 0.1).detach())
    assert together == pytest.approx(alone, rel=ROUNDING)
    without_end = float(made._loss(collate([([4, EOS], [6])], [0]), 0.1).detach())
    assert without_end < float(made._loss(collate([short], [0]), 0.1).detach()) - 0.5


def test_validation_is_without_smoothing_and_dropout(tmp_path: Path):
    made = trainer(tmp_path, dropout=0.5, label_smoothing=0.3)
    once = made.validate()
    assert made.validate() == once
    total, tokens = 0.0, 0
    for index, pair in enumerate(made.valid):
        logs = made.model(collate([pair], [index])).detach().double().log_softmax(-1)[0]
        total -= sum(float(logs[position, right]) for position, right in enumerate(pair[1]))
        tokens += len(pair[1])
    assert once == pytest.approx(total / tokens, rel=ROUNDING)


def test_a_copy_task_is_learnt_and_the_curve_tells(tmp_path: Path):
    progress = trainer(tmp_path, updates=150, validate_every=50, label_smoothing=0.0).run()
    losses = [row["valid_loss_nats"] for row in progress.curve]
    assert [row["update"] for row in progress.curve] == [50, 100, 150]
    assert losses[0] < math.log(VOCABULARY) and losses[-1] < 0.5 * losses[0]
    assert progress.best == min(losses)
    assert progress.curve[-1]["target_tokens"] == progress.target_tokens
    # Forty sentences of three pieces, eight a batch: five updates an epoch.
    assert progress.target_tokens == 150 * 8 * 3 and progress.curve[1]["epoch"] == 19


def test_snapshots_are_at_powers_of_the_root_of_two_and_at_the_end(tmp_path: Path):
    trainer(tmp_path, updates=11, first_snapshot=4).run()
    kept = sorted(path.stem for path in tmp_path.glob("snapshot-*"))
    assert kept == [f"snapshot-{update:07d}" for update in (4, 6, 8, 11)]
    config = TrainingConfig(1000)
    assert [u for u in range(1, 1001) if config.is_snapshot(u)] == [
        64, 91, 128, 181, 256, 362, 512, 724,
    ]  # fmt: skip


def test_the_rate_of_an_update_is_that_of_the_schedule(tmp_path: Path):
    made = trainer(tmp_path, updates=7)
    made.run()
    # 1.1 / sqrt(16) · 7 / 20^1.5
    assert made.optimiser.param_groups[0]["lr"] == pytest.approx(0.275 * 7 / 20**1.5)


def test_nan_stops_with_the_batch_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = trainer(tmp_path, updates=20)
    seen = []
    collated = made._update

    def poisoned(batch: object) -> float:
        seen.append(batch)
        if len(seen) == 3:
            made.model.logits.weight.data[4, 0] = torch.nan
        return collated(batch)

    monkeypatch.setattr(made, "_update", poisoned)
    with pytest.raises(UserError, match="loss is nan at update 3") as caught:
        made.run()
    where = tmp_path / "bad_batch.safetensors"
    assert str(where) in str(caught.value) and "\n" not in str(caught.value)
    tensors, note = checkpoint.read(where)
    assert note == {"update": 3} and len(seen) == 3
    for name in ("source", "target_out", "sentences"):
        assert torch.equal(tensors[name], getattr(seen[2], name))


def seen(made: Trainer) -> list[tuple[int, float, list[int]]]:
    """Of every update its number, rate and sentences."""
    found, update = [], made._update

    def watched(batch: Batch) -> float:
        loss = update(batch)
        rate = made.optimiser.param_groups[0]["lr"]
        found.append((made.progress.update, rate, batch.sentences.tolist()))
        return loss

    made._update = watched
    made.run()
    return found


def test_a_training_goes_on_from_weights_with_the_batches_that_follow(tmp_path: Path):
    """Five updates an epoch: twelve end within the third; the rate rises anew behind them."""
    folders = [tmp_path / name for name in ("whole", "first", "second")]
    for folder in folders:
        folder.mkdir()
    whole = seen(trainer(folders[0], updates=15, validate_every=4))
    first = trainer(folders[1], updates=12, validate_every=4)
    curve = first.run().curve
    weights = folders[1] / snapshot_name(12)
    second = trainer(folders[2], updates=15, validate_every=4)
    second.start = Start(weights, 12, curve)
    went_on = seen(second)
    assert [each[2] for each in went_on] == [each[2] for each in whole[12:]]
    rising = [rate * since / RISE for since, (_, rate, _) in enumerate(whole[12:], 1)]
    assert [each[1] for each in went_on] == pytest.approx(rising)
    assert [row["update"] for row in second.progress.curve] == [4, 8, 12, 15]
    assert second.progress.curve[:3] == curve and second.progress.curve[3]["restarted"] == 12
    kept = [tiny(), tiny()]
    checkpoint.load_model(kept[0], weights)
    checkpoint.load_model(kept[1], folders[2] / snapshot_name(12))
    assert all(map(torch.equal, *(each.state_dict().values() for each in kept)))


def test_from_the_last_update_on_nothing_is_trained(tmp_path: Path):
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    trainer(folders[0], updates=6).run()
    second = trainer(folders[1], updates=6)
    second.start = Start(folders[0] / snapshot_name(6), 6, [{"update": 6}])
    assert second.run().curve == [{"update": 6}]
    ends = [(folders[0] / snapshot_name(6)).read_bytes(),
            (folders[1] / "best.safetensors").read_bytes()]  # fmt: skip
    assert ends[0] == ends[1]


class Squares:
    """Half the squared size of the source embeddings, whose gradient is the embeddings."""

    points = frozenset()

    def __call__(self, model: Transformer, *_: object) -> Tensor:
        return 0.5 * model.source.tokens.weight.square().sum()

    def row(self, model: Transformer) -> dict[str, float]:
        return {"squares": float(self(model).detach())}


def test_an_addition_is_part_of_what_is_minimised_and_not_of_the_loss(tmp_path: Path):
    folders = [tmp_path / name for name in ("with", "without")]
    for folder in folders:
        folder.mkdir()
    made, plain = (trainer(folder, updates=1, validate_every=1) for folder in folders)
    made.addition = Squares()
    gradients = []
    for each in (made, plain):
        each.optimiser.step = lambda at=each: gradients.append(
            {name: value.grad.clone() for name, value in at.model.named_parameters()}
        )
        each.run()
    name = "source.tokens.weight"
    weight = plain.model.state_dict()[name]
    torch.testing.assert_close(gradients[0].pop(name), gradients[1].pop(name) + weight)
    for other, value in gradients[1].items():
        torch.testing.assert_close(gradients[0][other], value, msg=other)
    row, bare = made.progress.curve[0], plain.progress.curve[0]
    assert row["train_loss_nats"] == bare["train_loss_nats"]
    assert row["squares"] == pytest.approx(0.5 * float(weight.square().sum()), rel=ROUNDING)
    assert row.keys() - bare.keys() == {"squares"}


def test_only_what_is_in_a_group_is_trained_each_at_its_own_rate(tmp_path: Path):
    model = tiny()
    groups = [
        {"params": list(model.encoder.parameters())},
        {"params": [model.logits.weight], "factor": 20.0},
    ]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    made = trainer(tmp_path, updates=3)
    again = Trainer(model, made.config, made.train, made.valid, tmp_path, groups=groups)
    again.run()
    rates = [group["lr"] for group in again.optimiser.param_groups]
    assert rates == pytest.approx([0.275 * 3 / 20**1.5, 20 * 0.275 * 3 / 20**1.5])
    moved = {n for n, value in model.state_dict().items() if not torch.equal(value, before[n])}
    assert "logits.weight" in moved and "encoder.0.feed_forward.inner.weight" in moved
    assert all(name.startswith(("encoder.", "logits.")) for name in moved)
