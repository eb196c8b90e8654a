"""Page 31's decoders on their first batches: loss, diversity of heads and padding (page 34).

The X-raying article (Asad 2024) regressed the losses of the first 40 batches. The published rows
are those of whole trainings, whose times page 31's experiment names.
"""

import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import normalize

from headbook.corpora.plain_text import cut, filled, load_text
from headbook.experiments.watched import Setting, batches, loss, start
from headbook.models.capture import Point, capture
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.text.batches import PAD, Batch, EncodedPair
from headbook.text.subwords import Subwords
from headbook.training.config import learning_rate
from headbook.types import Kind


def name(setting: Setting) -> str:
    """The training's name in tables; a small one says how small."""
    count = setting.tokens // setting.context
    return setting.model + f", {setting.lines} lines in batches of {count}" * bool(setting.lines)


def segments(setting: Setting) -> tuple[list[EncodedPair], int]:
    """The text in segments, and the size of its vocabulary.

    As published they are whole lines, padded; as described the text is cut at a fixed length.
    """
    lines = load_text(setting.text, setting.lines).train
    subwords = Subwords.train(lines, setting.vocabulary)
    make = filled if setting.published else cut
    return make(subwords.encode(lines), setting.context), len(subwords)


@torch.inference_mode()
def pairs(model: Transformer, batch: Batch, setting: Setting) -> Tensor:
    """Output dissimilarity of every two heads, [layer pair]: minus the mean cosine of their slices.

    As published it is the notebook's, of the whole batch with dropout, eight segments at a time; as
    described of the batch's first eight without dropout.
    """
    total = torch.zeros(len(model.decoder), setting.heads, setting.heads, dtype=torch.float64)
    measured = len(batch) if setting.published else 8
    with torch.random.fork_rng(devices=[]):
        model.train(setting.published)
        for at in range(0, measured, 8):
            with capture(model, {Point.OUTPUT}) as tape:
                model(batch.select(slice(at, at + 8)))
            slices = torch.stack(tape[Kind.DECODER, Point.OUTPUT]).double()
            units = normalize(slices.unflatten(-1, (setting.heads, -1)), dim=-1)
            total -= torch.einsum("lbthd,lbtgd->lhg", units, units)
        model.train()
    one, other = torch.triu_indices(setting.heads, setting.heads, offset=1)
    return total[:, one, other] / batch.target_out[:measured].numel()


def train(setting: Setting, updates: int = 40) -> pd.DataFrame:
    """One row per update, from 0, and layer: mean and variance over pairs of heads of the
    dissimilarity, loss of the batch in nats per token, and the share of padding among its tokens.

    Each is measured before the step that the batch causes.
    """
    text, vocabulary = segments(setting)
    model, rows = start(setting, vocabulary), []
    more = {} if setting.published else {"betas": (0.9, 0.98), "eps": 1e-9}
    optimiser = torch.optim.Adam(model.parameters(), 0.01, fused=True, **more)
    torch.manual_seed(derived(setting.seed, "training"))
    for update, batch in zip(range(updates), batches(text, setting), strict=False):
        nats = loss(model.train(), batch, setting)
        nats.backward()
        padding = float((batch.target_out == PAD).double().mean())
        for layer, found in enumerate(pairs(model, batch, setting)):
            variance = float(found.var(correction=0)) if len(found) > 1 else float("nan")
            rows.append((update, layer + 1, float(found.mean()), variance, nats.item(), padding))
        if not setting.published:
            rate = learning_rate(update + 1, 128, setting.scale, 200)
            optimiser.param_groups[0]["lr"] = rate
        optimiser.step()
        optimiser.zero_grad()
    columns = ["update", "layer", "mean", "variance", "loss", "padding"]
    found = pd.DataFrame(rows, columns=columns)
    found.insert(0, "model", name(setting))
    found.insert(0, "setting", setting.setting)
    return found
