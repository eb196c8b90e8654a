"""The training loop: what is lost, kept and refused."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headbook.corpora.batches import EOS, Batch, collate
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.training import checkpoint
from headbook.training.config import TrainingConfig
from headbook.training.loop import RISE, Start, Trainer, snapshot_name
from headbook.training.precision import Precision
from headbook.training.scoring import nats
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


def test_losses_are_of_real_target_tokens(tmp_path: Path):
    """Of a batch with padding, as scoring computes them sentence by sentence."""
    made = trainer(tmp_path, updates=1, label_smoothing=0.0)
    made.train = made.valid = pairs = [([4, EOS], [6, EOS]), ([5, 6, EOS], [5, 6, 7, 8, EOS])]
    before = nats(made.model, pairs, 64)
    (row,) = made.run().curve
    assert row["target_tokens"] == 7
    assert row["train_loss_nats"] == pytest.approx(before, rel=ROUNDING)
    assert row["valid_loss_nats"] == pytest.approx(nats(made.model, pairs, 64), rel=ROUNDING)


def test_a_copy_task_is_learnt_and_the_curve_tells(tmp_path: Path):
    progress = trainer(tmp_path, updates=150, validate_every=50, label_smoothing=0.0).run()
    losses = [row["valid_loss_nats"] for row in progress.curve]
    assert [row["update"] for row in progress.curve] == [50, 100, 150]
    assert losses[0] < math.log(VOCABULARY) and losses[-1] < 0.5 * losses[0]
    assert progress.best == min(losses)
    assert progress.curve[-1]["target_tokens"] == progress.target_tokens
    # Forty sentences of three pieces, eight a batch: five updates an epoch.
    assert progress.target_tokens == 150 * 8 * 3 and progress.curve[1]["epoch"] == 19


def test_the_best_model_is_the_one_of_the_best_row(tmp_path: Path):
    made = trainer(tmp_path, updates=30, validate_every=10)
    best = made.run().best
    again = trainer(tmp_path)
    checkpoint.load_model(again.model, tmp_path / "best.safetensors")
    assert again.validate() == pytest.approx(best, rel=ROUNDING)


def test_snapshots_are_at_powers_of_the_root_of_two_and_at_the_end(tmp_path: Path):
    trainer(tmp_path, updates=11, first_snapshot=4).run()
    kept = sorted(path.stem for path in tmp_path.glob("snapshot-*"))
    assert kept == [f"snapshot-{update:07d}" for update in (4, 6, 8, 11)]
    config = TrainingConfig(1000)
    assert [u for u in range(1, 1001) if config.is_snapshot(u)] == [
        64, 91, 128, 181, 256, 362, 512, 724,
    ]  # fmt: skip


@pytest.mark.parametrize("precision", list(Precision))
def test_both_precisions_train_and_keep_weights_in_32_bits(
    tmp_path: Path, precision: Precision, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headbook.training.precision.multiplies_bfloat16", lambda: True)
    made = trainer(tmp_path, updates=40, precision=precision, validate_every=20)
    curve = made.run().curve
    assert curve[1]["valid_loss_nats"] < curve[0]["valid_loss_nats"]
    assert all(weight.dtype == torch.float32 for weight in made.model.parameters())
    with made.fabric.autocast():
        product = made.model.logits(torch.ones(1, 16))
    assert (product.dtype == torch.bfloat16) is (precision is Precision.BF16)


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


def test_a_finished_training_is_not_trained_further(tmp_path: Path):
    first = trainer(tmp_path, updates=6)
    first.run()
    again = trainer(tmp_path, updates=6)
    assert again.run().update == 6
    for name, weight in again.model.state_dict().items():
        assert torch.equal(weight, first.model.state_dict()[name])


def test_the_checkpoint_of_another_model_is_refused(tmp_path: Path):
    trainer(tmp_path, updates=2).run()
    other = trainer(tmp_path, updates=3)
    other.model = Transformer(TransformerConfig(VOCABULARY, VOCABULARY, 1, 1, 32, 32, 2))
    with pytest.raises(UserError, match=r"state\.safetensors .* another shape"):
        other.run()


@pytest.mark.parametrize("wrong", [{"updates": 0}, {"updates": 1, "tokens": 0}])
def test_impossible_configs_are_refused(wrong: dict):
    with pytest.raises(UserError):
        TrainingConfig(**wrong)


def test_nothing_to_train_on_is_said(tmp_path: Path):
    with pytest.raises(UserError, match="at least one training and one validation pair"):
        Trainer(tiny(), TrainingConfig(1), [], copies(1), tmp_path)


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


def test_a_checkpoint_comes_before_the_weights_to_go_on_from(tmp_path: Path):
    """Killed behind a restart it ends bit for bit as if it had not been."""
    folders = [tmp_path / name for name in ("first", "whole", "killed")]
    for folder in folders:
        folder.mkdir()
    trainer(folders[0], updates=4).run()

    def going_on(folder: Path, updates: int) -> Trainer:
        made = trainer(folder, updates, dropout=0.2)
        made.start = Start(folders[0] / snapshot_name(4), 4)
        return made

    whole = going_on(folders[1], 9)
    whole.run()
    going_on(folders[2], 6).run()
    killed = going_on(folders[2], 9)
    killed.run()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, killed.model.state_dict()[name]), name


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


def test_an_addition_without_end_stops_the_training(tmp_path: Path):
    made = trainer(tmp_path)
    made.addition = Squares()
    made.model.source.tokens.weight.data[3] = torch.inf
    with pytest.raises(UserError, match=r"the loss is (inf|nan) at update 1"):
        made.run()


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


def test_groups_and_their_rates_survive_a_kill(tmp_path: Path):
    def made(updates: int) -> Trainer:
        plain, model = trainer(tmp_path, updates), tiny(0.1)
        groups = [
            {"params": [model.logits.weight]},
            {"params": list(model.encoder.parameters()), "factor": 7.0},
        ]
        return Trainer(model, plain.config, plain.train, plain.valid, tmp_path, groups=groups)

    made(2).run()
    broken = made(4)
    broken.run()
    (tmp_path / "state.safetensors").unlink()
    whole = made(4)
    whole.run()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, broken.model.state_dict()[name]), name
    assert [group.get("factor") for group in broken.optimiser.param_groups] == [None, 7.0]


@pytest.mark.slow  # a process that imports torch
def test_the_precision_is_not_announced() -> None:
    """A notebook would show the notice as a fault; which logger gives it depends on the imports."""
    code = """
from headbook.training import precision, processes
precision.multiplies_bfloat16 = lambda: True
processes.fabric(precision.Precision.BF16)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True,
                          text=True, check=True)  # fmt: skip
    assert not done.stdout and "Precision" not in done.stderr
