"""Encoders that compare few pairs of tokens, trained on two tasks that need distant ones (page 48).

Texts ask for a value that stands elsewhere; nested lists (Nangia and Bowman 2018, as in Tay et al.
2021) come to a digit. The published size, 51 trainings, took half an hour on one core.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from headbook.corpora import nested_lists as lists
from headbook.corpora import retrieval as values
from headbook.corpora.retrieval import retrieval
from headbook.experiments.learning import descent
from headbook.models.attention import AttentionPath
from headbook.models.mixing import Mixing, Sizes, mix
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.seeds import derived

FAR = Sizes(length=64, window=8, block=4, tokens=2, drawn=1, step=4, keys=16)
LISTS = replace(FAR, length=lists.LONGEST, keys=8)
LAYERS, PAIRS = 2, 4
NEAR = LAYERS * FAR.window // 2
"""Tokens that two layers of windows carry a value."""
FIRST, LAST = "first token", "last token"
FINDING = (Mixing.FULL, Mixing.LINFORMER, Mixing.LINEAR, Mixing.LSTM, Mixing.WINDOW, Mixing.GLOBAL,
           Mixing.RANDOM, Mixing.BIGBIRD)  # fmt: skip
SOLVING = tuple(Mixing.DILATED if each is Mixing.RANDOM else each for each in FINDING)
OTHERS = (Mixing.GLOBAL, Mixing.BIGBIRD, Mixing.LINFORMER)
REPAIRED = dict.fromkeys((Mixing.GLOBAL, Mixing.RANDOM, Mixing.BIGBIRD), "far brought back")
REPAIRED |= {Mixing.LINFORMER: "far by Linformer"}
ASKED = dict.fromkeys(OTHERS, "lists by others")
ASKED |= {Mixing.WINDOW: "lists by windows", Mixing.LINEAR: "lists by linear"}
UNTRAINED = "converged: has not learned to find values even nearby"
UNKNOWN = "converged: full attention has not learned nested lists"
Draw = Callable[[torch.Generator], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Setting:
    """What all trainings share; the defaults are the published ones."""

    updates: int = 400
    batch: int = 32
    rate: float = 3e-3
    warmup: int = 50
    tested: int = 2_000  # texts that ask for a value
    lists: tuple[int, int] = (12_800, 4_000)  # to learn from, and others to be tested on


class Asked(nn.Module):
    """An encoder whose state at the asking token names one of `answers`."""

    def __init__(
        self, kind: Mixing, sizes: Sizes, vocabulary: int, answers: int, last: bool = False
    ) -> None:
        super().__init__()
        config = TransformerConfig(vocabulary, vocabulary, LAYERS, 0, 64, 128, 2, 0.0,
                                   path=AttentionPath.EXPLICIT)  # fmt: skip
        self.encoder, self.place = Transformer(config), -1 if last else 0
        for layer in self.encoder.encoder:
            layer.attention = mix(kind, layer.attention, sizes)
        self.answer = nn.Linear(64, answers)

    def forward(self, texts: Tensor) -> Tensor:
        """Logits of the answers, [text answer]."""
        return self.answer(self.encoder.encode(texts)[0][:, self.place])


def learn(seed: int, setting: Setting, draw: Draw, *given: object) -> Asked:
    """Adam on texts and answers that are drawn; the rate rises, then falls along a cosine.

    `given` is what `Asked` takes.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(seed, "initial weights"))
        model = Asked(*given)

    def rate(adam: torch.optim.Optimizer) -> SequentialLR:
        rise = LinearLR(adam, 0.02, total_iters=setting.warmup)
        fall = CosineAnnealingLR(adam, max(1, setting.updates - setting.warmup))
        return SequentialLR(adam, [rise, fall], [setting.warmup])

    descend = descent(model.parameters(), rate, lr=setting.rate)
    noise = torch.Generator().manual_seed(derived(seed, "texts"))
    for _ in range(setting.updates):
        texts, answers = draw(noise)
        descend(cross_entropy(model(texts), answers))
    return model.eval()


@torch.inference_mode()
def right(model: nn.Module, texts: Tensor, answers: Tensor) -> Tensor:
    """Whether the answer to each text is right."""
    return torch.cat([model(each).argmax(-1) for each in texts.split(100)]) == answers


def found(kind: Mixing, seed: int, setting: Setting, last: bool = False) -> dict[str, object]:
    """A row of the table `retrieval`: shares of near and of far values that are found."""

    def draw(noise: torch.Generator) -> tuple[Tensor, Tensor]:
        return retrieval(FAR.length, PAIRS, setting.batch, noise, last)[:2]

    model = learn(seed, setting, draw, kind, FAR, values.VOCABULARY, values.VALUES, last)
    fresh = torch.Generator().manual_seed(derived(seed, "fresh"))
    *test, distances = retrieval(FAR.length, PAIRS, setting.tested, fresh, last)
    correct, far = right(model, *test).double(), distances > NEAR
    return {"kind": str(kind), "asks": LAST if last else FIRST, "seed": seed,
            "updates": setting.updates, "near": correct[~far].mean().item(),
            "far": correct[far].mean().item()}  # fmt: skip


def solved(kind: Mixing, seed: int, setting: Setting) -> dict[str, object]:
    """A row of the table `lists`: accuracy on new lists, and of the best guess by operator."""
    (texts, new), (answers, wanted) = (
        each.split(setting.lists) for each in lists.nested_lists(sum(setting.lists))
    )

    def draw(noise: torch.Generator) -> tuple[Tensor, Tensor]:
        rows = torch.randint(len(texts), (setting.batch,), generator=noise)
        return texts[rows], answers[rows]

    model = learn(seed, setting, draw, kind, LISTS, lists.VOCABULARY, lists.VALUES)
    guess = lists.guessed(texts, answers, new) == wanted
    share = {"right": right(model, new, wanted), "guess": guess}
    share = {name: each.double().mean().item() for name, each in share.items()}
    return {"kind": str(kind), "seed": seed, "updates": setting.updates, **share}


def sweep(setting: Setting, seeds: int = 3) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables retrieval and lists."""
    runs = [(kind, False) for kind in FINDING] + [(Mixing.GLOBAL, True)]
    rows = [found(kind, seed, setting, last) for kind, last in runs for seed in range(seeds)]
    told = [solved(kind, seed, setting) for kind in SOLVING for seed in range(seeds)]
    return pd.DataFrame(rows), pd.DataFrame(told)
