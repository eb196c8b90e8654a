"""Greedy and beam search with cached keys and values."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor
from tqdm import tqdm

from headbook.models.transformer import Transformer
from headbook.text.batches import EOS, PAD, in_order
from headbook.text.subwords import Subwords


@dataclass(frozen=True)
class Search:
    """Search settings; the defaults are the paper's code. `beam` 1 is greedy search."""

    beam: int = 4
    length_exponent: float = 0.6
    spread: float = 3.0  # hypotheses this far (in log probability) below the best are dropped
    longest: float = 2.0  # a translation has at most longest × source + 10 tokens, EOS included

    def limits(self, source: Int[Tensor, "batch source"]) -> Int[Tensor, " batch"]:
        """The most tokens each sentence's translation may have, by its length without padding."""
        return (self.longest * (source != PAD).sum(1)).long() + 10


GREEDY = Search(beam=1)


def length_penalty(length: Float[Tensor, "*shape"], exponent: float) -> Float[Tensor, "*shape"]:
    """((5 + length) / 6)^exponent; a hypothesis' log probability is divided by it."""
    return ((5 + length) / 6) ** exponent


@dataclass
class Beams:
    """The hypotheses of every sentence: tokens behind the start, log probabilities, lengths.

    Lengths count EOS and stop at the sentence's limit; a dropped hypothesis has score -inf.
    """

    tokens: Int[Tensor, "row position"]
    scores: Float[Tensor, "batch beam"]
    lengths: Float[Tensor, "batch beam"]
    finished: Bool[Tensor, "batch beam"]
    limits: Int[Tensor, " batch"]

    @classmethod
    def start(cls, limits: Int[Tensor, " batch"], beam: int) -> "Beams":
        batch, device = len(limits), limits.device
        scores = torch.full((batch, beam), -torch.inf, device=device)
        scores[:, 0] = 0  # all beams are alike at first: only one may be continued
        tokens = torch.full((batch * beam, 1), PAD, device=device)
        lengths = torch.zeros(batch, beam, device=device)
        return cls(tokens, scores, lengths, torch.zeros_like(lengths, dtype=torch.bool), limits)

    @property
    def closed(self) -> Bool[Tensor, "batch beam"]:
        """Hypotheses that grow no more: finished, or cut by the limit of their own sentence."""
        return self.finished | (self.lengths >= self.limits[:, None])

    def settled(self, search: Search) -> Bool[Tensor, " batch"]:
        """Sentences whose best hypothesis is known.

        No other is growing, or none of those can overtake the best finished one: log probabilities
        fall, and the penalty is largest at the sentence's limit.
        """
        ended = self._normalised(search).masked_fill(~self.finished, -torch.inf).amax(1)
        largest = length_penalty(self.limits.float(), search.length_exponent)
        growing = (self.scores / largest[:, None]).masked_fill(self.closed, -torch.inf).amax(1)
        return (growing == -torch.inf) | (ended > growing)

    def advance(self, log_probabilities: Float[Tensor, "batch beam vocabulary"], search: Search):
        """Keeps the best continuations and returns the row each came from."""
        batch, beam, vocabulary = log_probabilities.shape
        carried = torch.full_like(log_probabilities, -torch.inf)
        carried[..., PAD] = 0  # a closed hypothesis continues with PAD alone, for free
        step = torch.where(self.closed.unsqueeze(-1), carried, log_probabilities)
        scores = self.scores.unsqueeze(-1) + step
        lengths = self.lengths + ~self.closed
        normalised = scores / length_penalty(lengths, search.length_exponent).unsqueeze(-1)
        scores = scores.masked_fill(
            scores < scores.amax(dim=(1, 2), keepdim=True) - search.spread, -torch.inf
        )
        normalised = normalised.masked_fill(scores == -torch.inf, -torch.inf)
        best = normalised.flatten(1).topk(beam).indices
        origin, token = best // vocabulary, best % vocabulary
        self.scores = scores.flatten(1).gather(1, best)
        self.lengths = lengths.gather(1, origin)
        self.finished = self.finished.gather(1, origin) | (token == EOS)
        rows = (origin + beam * torch.arange(batch, device=origin.device)[:, None]).flatten()
        self.tokens = torch.cat([self.tokens[rows], token.reshape(-1, 1)], dim=1)
        return rows

    def best(self, search: Search) -> list[list[int]]:
        """The best hypothesis of each sentence, without start, EOS and padding."""
        normalised = self._normalised(search)
        # A hypothesis the length limit cut is taken only where no finished one is left.
        finished = normalised.masked_fill(~self.finished, -torch.inf)
        # Dropped ones may carry an EOS as well, hence the comparison of scores and not of flags.
        any_finished = finished.amax(1) > -torch.inf
        chosen = torch.where(any_finished, finished.argmax(1), normalised.argmax(1))
        tokens = rearrange(
            self.tokens, "(batch beam) position -> batch beam position", beam=self.scores.shape[1]
        )
        rows = tokens[torch.arange(len(chosen)), chosen, 1:].tolist()
        return [[token for token in row if token not in (PAD, EOS)] for row in rows]

    def _normalised(self, search: Search) -> Float[Tensor, "batch beam"]:
        return self.scores / length_penalty(self.lengths, search.length_exponent)


@torch.inference_mode()
def translate(
    model: Transformer, source: Int[Tensor, "batch source"], search: Search
) -> list[list[int]]:
    """Target ids of each sentence's best translation, EOS left off. The model must be in eval."""
    beam = search.beam
    memory, mask = model.encode(source)
    rows = torch.arange(len(source), device=source.device).repeat_interleave(beam)
    memory, mask = memory[rows], None if mask is None else mask[rows]
    beams, cache = Beams.start(search.limits(source), beam), model.empty_cache()
    while not bool(beams.settled(search).all()):
        states = model.decode(beams.tokens[:, -1:], memory, mask, cache)
        # In 32 bits whatever the model's own: sums of log probabilities round badly in 16.
        logits = model.logits(states[:, -1]).float()
        logits[:, PAD] = -torch.inf
        shaped = rearrange(
            logits.log_softmax(-1), "(batch beam) word -> batch beam word", beam=beam
        )
        cache.lay_out()
        cache.reorder(beams.advance(shaped, search))
    return beams.best(search)


def translate_corpus(
    model: Transformer,
    encoded: Sequence[Sequence[int]],
    subwords: Subwords,
    search: Search,
    tokens: int = 4096,
) -> list[str]:
    """Translations of encoded source sentences, in their order. Puts the model in eval mode."""
    model.eval()
    device = next(model.parameters()).device
    translations = [""] * len(encoded)
    pairs = [(source, source) for source in encoded]
    with tqdm(total=len(encoded), desc="translating", unit="sentence", mininterval=2) as bar:
        # A beam multiplies the rows of a batch.
        for batch in in_order(pairs, max(tokens // search.beam, 1)):
            hypotheses = translate(model, batch.source.to(device), search)
            for sentence, hypothesis in zip(batch.sentences.tolist(), hypotheses, strict=True):
                translations[sentence] = subwords.decode(hypothesis)
            bar.update(len(hypotheses))
    return translations
