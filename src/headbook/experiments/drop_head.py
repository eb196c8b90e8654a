"""Models trained with DropHead, at one rate or on a V, and without (page 37; the rates also 36).

Zhou et al. (2020). The published size, five schedules with three seeds each, took two hours on two
cores.
"""

from collections.abc import Sequence

import pandas as pd
import torch

from headbook.experiments.small_models import Setting, each_kept, texts, train
from headbook.models.drop_head import drop_heads, rate_at
from headbook.models.gates import all_heads, closed
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.training.loop import Trainer
from headbook.training.scoring import nats

CONSTANT, V = "DropHead, one rate", "DropHead, V"
SCHEDULES = (("no DropHead", 0.0), ("one rate", 0.2), ("V", 0.2), ("one rate", 0.1), ("V", 0.1))
KEYS = ["schedule", "rate", "seed"]


def dropping(variant: str, rate: float, trainer: Trainer) -> None:
    """Leaves heads out at one rate, or on a V that turns at the end of warm-up or in the middle."""
    if variant not in (CONSTANT, V):
        return
    config = trainer.config
    turn = min(config.warmup / config.updates, 0.5) if variant == V else None
    trainer.before.append(
        lambda model, done: drop_heads(model, rate_at(rate, turn, done + 1, config.updates))
    )


def without_heads(setting: Setting, network: Transformer, held: Sequence) -> pd.DataFrame:
    """Nats per token as more and more random heads are closed, in the same orders in all models."""
    heads, rows = all_heads(network), []
    for order in range(setting.orders):
        noise = torch.Generator().manual_seed(derived(order, "heads taken away"))
        shuffled = [heads[at] for at in torch.randperm(len(heads), generator=noise).tolist()]
        for share in setting.levels:
            with closed(network, shuffled[: round(share * len(heads))]):
                rows.append((order, share, nats(network, held, 4096)))
    return pd.DataFrame(rows, columns=["order", "share", "nats"])


def measured(setting: Setting, schedule: str, rate: float, seed: int) -> pd.DataFrame:
    """Loss by order and share of heads closed; in each row also the model's own numbers.

    These are its losses in nats per token, on training text over the updates since the validation
    before the last, with dropout, and `layer 1` and so on: the dissimilarity of that layer's heads,
    mean over pairs and over looks in the last three fifths of the updates.
    """
    variant = f"DropHead, {schedule}"
    network, curve, looks = train(setting, seed, lambda each: dropping(variant, rate, each))
    text = texts(setting.corpus, setting.vocabulary, setting.context)
    numbers = {
        "train_nats": curve["train_loss_nats"].iloc[-1],
        "valid_nats": curve["valid_loss_nats"].min(),
        "test_nats": nats(network, text.test, 4096),
    }
    layers = looks.groupby("layer")["output dissimilarity, scale-free"].mean()
    found = without_heads(setting, network, text.valid[: setting.held])
    return found.assign(**numbers, **layers.rename("layer {}".format).to_dict())


def sweep(seeds: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Losses of every model, loss by heads closed, and dissimilarity by layer; each is kept."""
    runs = [{"schedule": schedule, "rate": rate, "seed": seed}
            for seed in range(seeds) for schedule, rate in SCHEDULES]  # fmt: skip
    whole = each_kept(measured, Setting(), runs)
    one = whole.drop_duplicates(KEYS)
    layers = [each for each in one if each.startswith("layer ")]
    found = one.melt(KEYS, layers, "layer", "dissimilarity")
    found["layer"] = found["layer"].str.removeprefix("layer ").astype(int)
    removed = whole[[*KEYS, "order", "share", "nats"]]
    return one[[*KEYS, "train_nats", "valid_nats", "test_nats"]], removed, found
