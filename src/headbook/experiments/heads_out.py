"""A translator without some of its heads, untrained: losses and BLEU of a test text (pages 20, 21).

Michel et al. (2019, sections 3 and 4) close heads of a trained model and translate again. Each set
is kept when it is done, so that an interrupted run goes on. Two hundred sentences of a released
model without each of 64 heads took 14 to 37 minutes, two thousand of models trained here hours.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from headbook.corpora.readers import load as corpus
from headbook.looking.close import close
from headbook.looking.load import load
from headbook.machine import accelerator
from headbook.models.attention import MemoryMask
from headbook.models.loaded import Loaded, Translator, digest, there
from headbook.results import cached
from headbook.statistics import holm
from headbook.text.batches import Batch, EncodedPair, in_order
from headbook.training.paired import corpus_bleu, enough, increase, paired, statistics
from headbook.types import UserError

RELEASED = "ntrex-pt"
"""The text of released translators, which read either side of it."""
LEVEL, SAMPLES = 0.01, 10_000
"""The paper's level of significance; resamples of a paired test, more for over 66 heads."""
Arrays = dict[str, np.ndarray]


def text_of(model: Translator, sentences: int) -> tuple[str, list[str], list[str]]:
    """Name, sources and references: of a model trained here the first test set of its corpus.

    UserError where nothing says what the model was trained on.
    """
    known = getattr(model, "corpus", RELEASED if "pt" in model.languages else "")
    if not known or "en" not in model.languages:
        raise UserError(f"{model.name} has no test text here: leave it out of `tested`")
    name, pairs = next(iter(corpus(known).tests.items()))
    sides = [list(each[:sentences]) for each in (pairs.source, pairs.target)]
    sides = sides if model.languages[0] == "en" else sides[::-1]
    return RELEASED if known == RELEASED else name, *sides


def tokens(model: Translator) -> int:
    """Padded tokens a batch: 16 times the usual on a GPU, which takes hardly longer for them."""
    return model.batch_tokens * (1 if accelerator() == "cpu" else 16)


@torch.inference_mode()
def own(model: Translator, sources: Sequence[str]) -> list[EncodedPair]:
    """Ids of every sentence and of its greedy translation; its text might be cut otherwise."""
    if not hasattr(model, "greedy"):
        raise UserError(f"{model.name} gives text and no ids: name a Firefox model or one of ours")
    pairs = {}
    for batch in model.batches(sources, None, tokens(model)):
        batch = there(model.network, batch)
        found = model.greedy(batch, *encoded(model, batch), model.candidates(batch))
        given = map(torch.masked_select, batch.source, batch.source_mask)
        for row, source, ids in zip(batch.sentences.tolist(), given, found, strict=True):
            pairs[row] = source.tolist(), [*ids, model.end]
    return [pairs[row] for row in range(len(pairs))]


def own_by_id(model: Loaded, sources: Sequence[str]) -> list[Batch]:
    """The sentences with their greedy translations: by id, or by text of a model without ids."""
    if not hasattr(model, "greedy"):
        return model.batches(sources, model.translate(sources), 1024)
    return [*in_order(own(model, sources), model.batch_tokens, model.one_batch)]


@lru_cache(maxsize=1)
@torch.inference_mode()
def prepared(name: str, sentences: int) -> tuple[Translator, list[str], list[tuple]]:
    """The model, references, and of every batch: own and right translations, choices, all ids."""
    model = load(name, device=accelerator())
    _, sources, references = text_of(model, sentences)
    pairs, known = own(model, sources), {}
    for batch in model.batches(sources, references):
        right = map(torch.masked_select, batch.target_out, batch.target_mask)
        known |= zip(batch.sentences.tolist(), (ids.tolist() for ids in right), strict=True)
    found = []
    for batch in in_order(pairs, tokens(model), model.one_batch):
        rows = batch.sentences.tolist()
        reference = model.one_batch([(pairs[at][0], known[at]) for at in rows], rows)
        batch, reference = (there(model.network, each) for each in (batch, reference))
        targets = [each.target_out[each.target_mask] for each in (batch, reference)]
        allowed = model.candidates(batch)
        found.append((batch, reference, allowed, torch.cat([allowed.ids, *targets]).unique()))
    return model, references, found


def encoded(model: Translator, batch: Batch) -> tuple[Tensor, MemoryMask | None]:
    """The encoder's output, and the mask of its padding."""
    real, network = batch.source_mask, model.network
    mask = None if bool(real.all()) else real[:, None, None, :]
    return network.encoded_from(0, network.embedded_source(batch.source), mask), mask


@torch.inference_mode()
def without(model: str, weights: str, sentences: int, silent: Sequence[str]) -> Arrays:
    """The model without these heads: nats and tokens [sentence] of `own` translations and of the
    `reference`, and the `statistics` [sentence, 10] of BLEU of what it translates now. `weights` is
    the network's digest, so that another model of that name is measured anew.
    """
    translator, references, batches = prepared(model, sentences)
    network, texts = translator.network, [""] * sentences
    found = {name: np.zeros(sentences) for name in ("own", "reference")}
    found |= {f"{name}_tokens": np.zeros(sentences, np.int64) for name in found}
    with close(translator, silent):
        for given, reference, allowed, among in batches:
            memory, mask = encoded(translator, given)
            scores, rows = network.predictor(among), given.sentences.tolist()
            for name, batch in (("own", given), ("reference", reference)):
                real = batch.target_mask
                states = network.decode(batch.target_in, memory, mask)[real]
                wanted = torch.searchsorted(among, batch.target_out[real])
                nats = cross_entropy(scores(states), wanted, reduction="none").double()
                nats = nats.new_zeros(real.shape).masked_scatter(real, nats)
                sums = nats.sum(1).cpu(), real.sum(1).cpu()
                found[name][rows], found[f"{name}_tokens"][rows] = sums
            again = translator.greedy(given, memory, mask, allowed)
            for row, ids in zip(rows, again, strict=True):
                texts[row] = translator.text(ids)
    return found | {"statistics": statistics(texts, references)}


def silenced(model: str, sentences: int, masks: Sequence[Sequence[str]]) -> Arrays:
    """`without` each set of heads, [mask, sentence, …]; computed once and kept."""
    given = {"model": model, "weights": digest(load(model).network), "sentences": sentences}
    found = [cached(without, **given, silent=list(each)) for each in tqdm(masks, "without heads")]
    return {name: np.stack([each[name] for each in found]) for name in found[0]}


def effects(found: Arrays) -> pd.DataFrame:
    """One row per mask but the first: `added` to both losses, and `changes` of BLEU."""
    sides = ("own", "reference")
    parts = [added(found[each], found[f"{each}_tokens"][0], f"{each}_added") for each in sides]
    return pd.concat([*parts, changes(found["statistics"])], axis=1)


def added(nats: Float[np.ndarray, "mask sentence"], tokens: np.ndarray, name: str) -> pd.DataFrame:
    """Nats per token that each mask but the first adds to the first's loss, with intervals."""
    found = pd.DataFrame([vars(increase(each, nats[0], tokens)) for each in nats[1:]])
    return found.drop(columns="p").set_axis([name, f"{name}_low", f"{name}_high"], axis=1)


def changes(found: Int[np.ndarray, "mask sentence 10"]) -> pd.DataFrame:
    """What each mask but the first changes of the first's BLEU: interval, p, and p after Holm."""
    whole, *others = found
    samples = enough(len(others), LEVEL, SAMPLES)
    frame = pd.DataFrame([vars(paired(each, whole, samples)) for each in others])
    frame.columns = ["change", "change_low", "change_high", "p"]
    frame["p_holm"] = holm(frame["p"])
    frame["bleu"], frame["whole_bleu"] = [*map(corpus_bleu, others)], corpus_bleu(whole)
    return frame
