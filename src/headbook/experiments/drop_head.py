"""Language models trained with DropHead, at one rate or on a V, and without (page 37).

Zhou et al. (2020). The published size, five schedules with three seeds each, took two hours on two
cores.
"""

import pandas as pd

from headbook.experiments.dropping_heads import Setting, dropping, texts, train, without_heads
from headbook.results import cached
from headbook.training.scoring import nats

SCHEDULES = (("no DropHead", 0.0), ("one rate", 0.2), ("V", 0.2), ("one rate", 0.1), ("V", 0.1))
SETTING = Setting()
KEYS = ["schedule", "rate", "seed"]


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


def sweep(
    seeds: int, setting: Setting = SETTING, schedules: tuple[tuple[str, float], ...] = SCHEDULES
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Losses of every model, loss by heads closed, and dissimilarity by layer; each is kept."""
    rows = []
    for seed in range(seeds):
        for schedule, rate in schedules:
            labels = dict(zip(KEYS, (schedule, rate, seed), strict=True))
            rows.append(cached(measured, setting=setting, **labels).assign(**labels))
    whole = pd.concat(rows)
    one = whole.drop_duplicates(KEYS)
    layers = [each for each in one if each.startswith("layer ")]
    found = one.melt(KEYS, layers, "layer", "dissimilarity")
    found["layer"] = found["layer"].str.removeprefix("layer ").astype(int)
    removed = whole[[*KEYS, "order", "share", "nats"]]
    return one[[*KEYS, "train_nats", "valid_nats", "test_nats"]], removed, found
