"""The training loop: what is lost, kept and refused; the schedule; when it saves and stops."""

import copy
import math
from pathlib import Path

import pytest
import torch
from refusing import refuses

from headbook.models import checkpoint
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, collate
from headbook.training import loop
from headbook.training.config import Precision, TrainingConfig, learning_rate
from headbook.training.loop import Clock, Trainer, snapshot_name
from headbook.training.scoring import nats

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
    folder.mkdir(exist_ok=True)
    return Trainer(tiny(dropout), config, copies(40), copies(8), folder)


def test_smoothed_loss_by_hand(tmp_path: Path):
    """(1 - e) · -log p(right) + e · mean over the vocabulary of -log p, over real targets only."""
    made = trainer(tmp_path, updates=1, label_smoothing=0.1)
    made.train = [([4, 5, EOS], [6, EOS]), ([7, EOS], [8, 9, 10, EOS])]
    batch = collate(made.train, [0, 1])
    logs = made.model(batch).detach().double().log_softmax(-1)[batch.target_mask]
    right = logs.gather(1, batch.target_out[batch.target_mask][:, None])
    expected = -0.9 * float(right.mean()) - 0.1 * float(logs.mean())
    assert made.run().curve[0]["train_loss_nats"] == pytest.approx(expected, rel=ROUNDING)


def test_validation_is_without_smoothing_and_dropout(tmp_path: Path):
    made = trainer(tmp_path, dropout=0.5, label_smoothing=0.3)
    assert made.validate() == pytest.approx(nats(tiny().eval(), made.valid, 9), rel=ROUNDING)


def test_a_copy_task_is_learnt_and_the_curve_tells(tmp_path: Path):
    progress = trainer(tmp_path, updates=150, validate_every=50, label_smoothing=0.0).run()
    losses = [row["valid_loss_nats"] for row in progress.curve]
    assert [row["update"] for row in progress.curve] == [50, 100, 150]
    assert losses[0] < math.log(VOCABULARY) and losses[-1] < 0.5 * losses[0]
    assert progress.best == min(losses)
    # Forty sentences of three pieces, eight a batch: five updates an epoch.
    assert progress.curve[-1]["target_tokens"] == 150 * 8 * 3 and progress.curve[1]["epoch"] == 19


def test_it_goes_on_from_weights_with_the_batches_that_follow(tmp_path: Path):
    """Five updates an epoch: twelve end within the third; the rate rises anew behind them."""
    whole, later = (trainer(tmp_path / name, updates=15, validate_every=4) for name in "ab")
    whole.run()
    weights = tmp_path / "a" / snapshot_name(12)
    checkpoint.save_model(whole.model, weights)
    later.go_on_from(weights, 12, [{"update": 12}])
    assert torch.equal(later.model.logits.weight, whole.model.logits.weight)
    assert (later.progress.epoch, later.progress.batch) == (2, 2)
    later.run()
    rates = [made.optimiser.param_groups[0]["lr"] for made in (later, whole)]
    assert rates[0] == pytest.approx(rates[1] * 3 / loop.RISE)


def test_snapshots_are_at_powers_of_the_root_of_two_and_at_the_end(tmp_path: Path):
    trainer(tmp_path, updates=11, first_snapshot=4).run()
    kept = sorted(path.stem for path in tmp_path.glob("snapshot-*"))
    assert kept == [f"snapshot-{update:07d}" for update in (4, 6, 8, 11)]
    at = [u for u in range(1, 1001) if TrainingConfig(1000).is_snapshot(u)]
    assert at == [64, 91, 128, 181, 256, 362, 512, 724]


def test_the_rate_rises_to_the_papers_peak_and_falls():
    # 4 / sqrt(512) / sqrt(16000) = 4 / sqrt(8192000) = 0.0013975...
    for update, share in ((16_000, 1), (1, 1 / 16_000), (64_000, 1 / 2)):
        found = learning_rate(update, 512, 4.0, 16_000)
        assert found == pytest.approx(share * 1.3975e-3, rel=1e-4)
    assert learning_rate(4, 9, 6.0, 1) == 1.0


def test_only_what_is_in_a_group_is_trained_each_at_its_own_rate(tmp_path: Path):
    model, made = tiny(), trainer(tmp_path, updates=3)
    groups = [
        {"params": list(model.encoder.parameters())},
        {"params": [model.logits.weight], "factor": 20.0},
    ]
    before = copy.deepcopy(model.state_dict())
    again = Trainer(model, made.config, made.train, made.valid, tmp_path, groups=groups)
    again.run()
    rates = [group["lr"] for group in again.optimiser.param_groups]
    # 1.1 / sqrt(16) · 3 / 20^1.5
    assert rates == pytest.approx([0.275 * 3 / 20**1.5, 20 * 0.275 * 3 / 20**1.5])
    moved = [n for n, value in model.state_dict().items() if not torch.equal(value, before[n])]
    assert {name.partition(".")[0] for name in moved} == {"encoder", "logits"}


def test_nan_stops_the_training_before_its_step(tmp_path: Path):
    made = trainer(tmp_path, updates=20)
    made.before.append(lambda model, done: model.logits.weight.data.mul_([1, 1, math.nan][done]))
    refuses(made.run, "loss is nan at update 3: lower")
    assert made.progress.update == 2


@pytest.mark.parametrize(
    ("save_every", "deadline", "times", "expected"),
    [
        (10.0, math.inf, (4, 10, 11, 20, 22), "nnsns"),
        # The longest took 20 seconds: after 60 there is no room for two of those.
        (math.inf, 100.0, (5, 25, 45, 59, 60), "nnnnS"),
    ],
)
def test_it_saves_now_and_then_and_stops_in_time(
    monkeypatch, save_every: float, deadline: float, times: tuple, expected: str
):
    clock, found = Clock(save_every, deadline, passed=0.0, saved=0.0), ""
    for now in times:
        monkeypatch.setattr(loop.time, "monotonic", lambda now=now: now)
        found += {(False, False): "n", (True, False): "s", (True, True): "S"}[clock.due()]
    assert found == expected
