"""`hb.measure`: every head of a model on a text, as one table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pandas as pd
import torch

from headbook.heads.bootstrap import mixed
from headbook.heads.nulls import NULLS, NullValues
from headbook.looking.diversity import diversity
from headbook.looking.effects import NATS, VECTORS, predicts
from headbook.looking.importance import affordable, by_ablation, by_gradient
from headbook.looking.measured import KEY, Measured
from headbook.looking.passes import (
    Sums,
    aligned,
    attention_measures,
    bar,
    baseline_measures,
    null_measures,
    nulls_of,
    pass_over,
    ranks_in,
    role_measures,
)
from headbook.looking.table import columns, frame
from headbook.looking.text import Text
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

HEAD = ("kind", "layer", "head")
TOKENS, PREDICTED_TOKENS = 2048, 1024
"""Padded tokens of a batch; fewer where a vocabulary is predicted at every one of them."""
TRANSLATED = 200
"""Sentences that importance is measured on; a translation model translates these."""
NULL_SENTENCES = 100
"""Sentences that null networks are measured on."""
DIVERSE_SENTENCES = 200
"""Sentences that diversity is measured on."""
ENGLISH = ("en", "und")
"""Languages that an English parser is used for; und is a language that is not known."""


def measure(
    model: Loaded,
    text: Text,
    *,
    importance: bool = True,
    ablated: int | None = None,
    nulls: int = NULLS,
    diverse: bool = True,
    decoder: bool = True,
    progress: bool = True,
) -> pd.DataFrame:
    """One row per head: its confidence, roles' scores, baselines, nulls and importance.

    `model` is from `hb.load`, `text` from `hb.text`. All shares and accuracies lie between 0 and 1.
    Special tokens (EOS, [CLS], …) count neither as queries nor as keys, except in `special` and
    `entropy`. Columns that a kind of attention, model or text cannot have are absent or NaN.

    kind, layer, head: encoder, decoder or cross; layer and head from 1
    confidence: mean largest weight of a query
    own, previous, next: share of tokens whose largest weight is on offset 0, -1, +1
    neighbour, neighbour_offset: the larger of previous and next
    other, other_offset: the best other offset up to 5 tokens away
    special: weight on special tokens, or on none
    entropy: mean entropy of a query's weights, in nats
    rare, rare_sentences: share of tokens, or of whole sentences, that point at one of the
        sentence's two rarest tokens; ranks are of counts in this text
    nsubj_head_to_dependent, …: share of dependency arcs found, over four relations and two
        directions; attention to a word is summed over its pieces
    importance_gradient: mean of |∂L/∂ξ|, nats per sentence (Michel et al. 2019, equation 2)
    importance_ablation: increase in loss without the head, nats per target token; without a loss,
        1 - cosine of the mean-pooled sentence vector

    Suffixes: `_low`, `_high` bound a 95 % bootstrap interval over sentences; `_null` is the
    largest value of any head over `nulls` networks with permuted or redrawn weights; `_chance`
    a head that points at all tokens equally often; `_offset` the best fixed offset, `_tags` the
    best part-of-speech rule, both chosen on the same sentences (`hb.roles` uses halves).

    Translation models translate a subset of the sentences greedily; decoder and cross-attention
    and importance by gradient are measured on these. Importance by ablation is measured on
    `ablated` of them; by default as many as a fixed budget of operations allows, which may be
    fewer than ten. `importance=False`, `nulls=0` and
    `diverse=False` leave out the slowest parts; `decoder=False` measures the encoder alone of a
    translation model, and without importance it then translates nothing. `attrs["headbook"]` holds
    diversity per layer, counts and notes. Memory does not grow with the number of sentences, apart
    from the text itself.

    UserError for a text that the model cannot take, for heads that differ in number between layers,
    and for trees of another text.
    """
    return _Run(model, text, progress, decoder).table(importance, ablated, nulls, diverse)


@dataclass
class _Run:
    """One call: results that are computed once and used several times."""

    model: Loaded
    text: Text
    shown: bool
    decoder: bool
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def table(
        self, importance: bool, ablated: int | None, nulls: int, diverse: bool
    ) -> pd.DataFrame:
        self._check(ablated, nulls)
        self.model.network.eval()  # dropout would move importance
        sentences = self.text.sentences
        batches = self.model.batches(sentences, self.text.targets, TOKENS)
        self.counts["all"] = len(sentences)
        sums, found_nulls = self._first_pass(batches, nulls)
        (first,) = sums
        spread = []
        if diverse:
            probe = batches_of(batches, chosen(len(sentences), DIVERSE_SENTENCES))
            spread.append(diversity(self.model.network, [first], probe))
        targeted = None
        if Kind.CROSS in self._kinds and (self.decoder or importance):
            targeted, others = self._translated(), [k for k in self._kinds if k is not first]
            others = others if self.decoder else []
            for kind in others:
                measures = attention_measures(kind)
                sums[kind] = pass_over(self.model.network, targeted, measures, self.shown)
            if diverse and others:
                spread.append(diversity(self.model.network, others, targeted))
        frames = [
            frame(kind, columns(kind, each, found_nulls if kind is first else None))
            for kind, each in sums.items()
        ]
        table, unit = pd.concat(frames, ignore_index=True), ""
        if importance:
            by_head, unit = self._importance(targeted or self._untranslated(), ablated)
            table = table.merge(by_head, on=list(HEAD), how="left")
        table.attrs[KEY] = Measured(
            model=self.model.name,
            origin=self.model.origin,
            text=self.text.name,
            parser=self.text.parser,
            sentences=self.counts,
            sums=sums,
            nulls=found_nulls,
            null_count=nulls,
            importance=unit,
            diversity=pd.concat(spread, ignore_index=True) if spread else pd.DataFrame(),
            notes=tuple(self.notes),
        )
        return table

    def _check(self, ablated: int | None, nulls: int) -> None:
        if not self.text.sentences:
            raise UserError(f"{self.text.name} has no sentence to measure on")
        if nulls < 0 or (ablated is not None and ablated < 1):
            raise UserError("nulls is 0 or more, and ablated 1 or more")
        for kind in self._kinds:
            heads = {
                block.heads for each, _, block in self.model.network.attentions() if each is kind
            }
            if len(heads) > 1:
                raise UserError(
                    f"{self.model.name}: {kind} layers have {sorted(heads)} heads; layers with "
                    "unequal numbers cannot be measured together"
                )

    @property
    def _kinds(self) -> list[Kind]:
        return list(dict.fromkeys(kind for kind, _, _ in self.model.network.attentions()))

    def _first_pass(
        self, batches: Sequence[Batch], nulls: int
    ) -> tuple[dict[Kind, Sums], NullValues | None]:
        """All sentences, through the encoder, or through a model that has no encoder."""
        kind, roles, beside = Kind.DECODER, dict, {}
        if Kind.ENCODER in self._kinds:
            kind, trees, ranks = Kind.ENCODER, self._trees(), ranks_in(batches)
            roles, beside = partial(role_measures, trees, ranks), baseline_measures(trees, ranks)
        else:
            self.notes.append("Syntax and rare words are measured for encoders only.")
        measures = attention_measures(kind) | roles() | beside
        sums = {kind: pass_over(self.model.network, batches, measures, self.shown)}
        if not nulls:
            return sums, None
        rows = chosen(len(self.text.sentences), NULL_SENTENCES)
        self.counts["nulls"] = len(rows)
        make = partial(null_measures, kind, partial(roles, replicates=0) if beside else dict)
        some = batches_of(batches, rows)
        return sums, nulls_of(self.model.network, some, make, nulls, self.shown)

    def _trees(self) -> list:
        """The aligned trees; none, with a note, where there are none or of another language."""
        if not self.text.trees:
            self.notes.append("The text has no trees, so syntax is not measured.")
            return []
        if self.text.parser != "gold" and self.model.languages[0] not in ENGLISH:
            self.notes.append(
                f"The parser is English and the model reads {self.model.languages[0]}, so syntax "
                "is not measured."
            )
            return []
        return aligned(self.model, self.text)

    def _translated(self) -> list[Batch]:
        """A subset of the sentences with the model's own greedy translations as targets."""
        rows = chosen(len(self.text.sentences), TRANSLATED)
        sentences = [self.text.sentences[row] for row in rows]
        self.counts["translated"] = len(rows)
        self.notes.append(
            f"Decoder and cross-attention and importance by gradient are measured on {len(rows)} "
            "sentences with the model's own greedy translations as targets."
        )
        return self.model.batches(sentences, self.model.translate(sentences), PREDICTED_TOKENS)

    def _untranslated(self) -> list[Batch]:
        """As many sentences, of a model that translates nothing."""
        rows = chosen(len(self.text.sentences), TRANSLATED)
        return self.model.batches(
            [self.text.sentences[row] for row in rows], None, PREDICTED_TOKENS
        )

    def _importance(
        self, batches: Sequence[Batch], ablated: int | None
    ) -> tuple[pd.DataFrame, str]:
        """One row per head, and the unit of importance by ablation."""
        network, sentences = self.model.network, sum(map(len, batches))
        loss = predicts(self.model, batches[0])
        tokens = sum(int(b.source_mask.sum()) + int(b.target_mask.sum()) for b in batches)
        count = min(ablated or affordable(network, tokens / sentences, loss), sentences)
        self.counts["ablated"] = count
        self.notes.append(f"Importance by ablation is measured on {count} sentences.")
        found = {}
        if loss:
            show = partial(bar, what="gradients", unit="batch", shown=self.shown)
            found["importance_gradient"] = by_gradient(self.model, batches, show)
        show = partial(bar, what="removing heads", unit="head", shown=self.shown)
        some = batches_of(batches, chosen(sentences, count))
        removed = by_ablation(self.model, some, show)
        low, high = removed.interval()
        found |= {"importance_ablation": removed.ratio(), "importance_ablation_low": low,
                  "importance_ablation_high": high}  # fmt: skip
        heads = [(str(h.kind), h.layer + 1, h.head + 1) for h in all_heads(network)]
        values = {name: value.numpy() for name, value in found.items()}
        unit = NATS if loss else VECTORS
        return pd.DataFrame(heads, columns=list(HEAD)).assign(**values), unit


def chosen(sentences: int, count: int) -> list[int]:
    """Numbers of `count` sentences in ascending order, drawn by a hash: the same every time."""
    order = mixed(torch.arange(sentences) + _DRAWN).argsort()
    return sorted(order[:count].tolist())


_DRAWN = 1 << 41
"""Keeps these draws apart from the bootstrap's and the random heads'."""


def batches_of(batches: Sequence[Batch], rows: Sequence[int]) -> list[Batch]:
    """The batches with these sentences only."""
    wanted = torch.tensor(rows)
    kept = [(batch, torch.isin(batch.sentences, wanted)) for batch in batches]
    return [batch.select(rows_kept) for batch, rows_kept in kept if bool(rows_kept.any())]
