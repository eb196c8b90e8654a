"""`hb.measure`: every head of a model on a text, as one table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

import pandas as pd
import torch
from torch import Tensor

from headbook.heads.bootstrap import mixed
from headbook.heads.measure import largest
from headbook.heads.nulls import NULLS
from headbook.heads.scores import ranks_in
from headbook.looking.close import nulls as null_networks
from headbook.looking.diversity import diversity
from headbook.looking.effects import NATS, VECTORS, predicts
from headbook.looking.importance import affordable, by_ablation, by_gradient
from headbook.looking.measured import KEY, Measured, without_intervals
from headbook.looking.naming import first_kind, shape_of
from headbook.looking.passes import Sums, aligned, bar, encoder_sums, measured, measures
from headbook.looking.table import columns, frame
from headbook.looking.text import Text, fitting, readable
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

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
NOT_NULL = ("special", "entropy")
"""Measures that are not compared with null networks."""


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

    Suffixes: `_low`, `_high` bound a 95 % bootstrap interval over sentences, of fewer than four
    empty; `_null` is the largest value of any head over `nulls` networks with permuted or redrawn
    weights; `_chance` a head that points at all tokens equally often; `_offset` the best fixed
    offset, `_tags` the best part-of-speech rule, both chosen on the same sentences (`hb.roles` uses
    halves).

    Translation models translate a subset of the sentences greedily; decoder and cross-attention
    and importance by gradient are measured on these. Importance by ablation is measured on
    `ablated` of them; by default as many as a fixed budget of operations allows, which may be
    fewer than ten. `importance=False`, `nulls=0` and
    `diverse=False` leave out the slowest parts; `decoder=False` measures the encoder alone of a
    translation model, and without importance it then translates nothing. `attrs["headbook"]` holds
    diversity per layer, counts and notes. Memory does not grow with the number of sentences, apart
    from the text itself.

    Sentences that the model cannot take, mostly too long, are left out, which a note counts.
    UserError where it can take none, for heads that differ in number between layers,
    and for trees of another text.
    """
    _check(model, text, ablated, nulls)
    text, refused = readable(model, text)
    notes = [f"Sentences left out, since the model cannot take them: {refused}."] * bool(refused)
    return _Run(model, text, progress, notes).table(importance, ablated, nulls, diverse, decoder)


def _check(model: Loaded, text: Text, ablated: int | None, nulls: int) -> None:
    if not text.sentences:
        raise UserError(f"{text.name} has no sentence to measure on")
    if nulls < 0 or (ablated is not None and ablated < 1):
        raise UserError("nulls is 0 or more, and ablated 1 or more")
    for kind, heads in shape_of(model.network).items():
        if len(set(heads)) > 1:
            raise UserError(
                f"{model.name}: {kind} layers have {sorted(set(heads))} heads; layers with "
                "unequal numbers cannot be measured together"
            )


@dataclass
class _Run:
    """One call, and what is said about it beside the table."""

    model: Loaded
    text: Text
    shown: bool
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def table(
        self, importance: bool, ablated: int | None, nulls: int, diverse: bool, decoder: bool
    ) -> pd.DataFrame:
        network = self.model.network.eval()  # dropout would move importance
        kinds = list(shape_of(network))
        first = first_kind(kinds)
        self.counts["all"] = len(self.text.sentences)
        batches = self.model.batches(self.text.sentences, None, TOKENS)
        own, largest_of_nulls = self._first_pass(batches, first, nulls)
        sums, spread = {first: own}, []
        if diverse:
            some = batches_of(batches, chosen(len(self.text.sentences), DIVERSE_SENTENCES))
            spread.append(diversity(network, [first], some))
        translates, targeted = Kind.CROSS in kinds, []
        if importance or (translates and decoder):
            targeted = self._targeted(translates)
            others = [kind for kind in kinds if kind is not first] if decoder else []
            for kind in others:
                sums[kind] = measured(network, targeted, measures(kind), shown=self.shown)
            if diverse and others:
                spread.append(diversity(network, others, targeted))
        frames = [
            frame(kind, columns(each, largest_of_nulls if kind is first else {}))
            for kind, each in sums.items()
        ]
        table, unit = pd.concat(frames, ignore_index=True), ""
        if importance:
            by_head, unit = self._importance(targeted, ablated)
            table = table.merge(by_head, on=["kind", "layer", "head"], how="left")
        table = without_intervals(table, len(self.text.sentences))
        table.attrs[KEY] = Measured(
            model=self.model.name,
            origin=self.model.origin,
            text=self.text.name,
            parser=self.text.parser,
            sentences=self.counts,
            sums=sums,
            nulls=largest_of_nulls,
            null_count=nulls,
            importance=unit,
            diversity=pd.concat(spread, ignore_index=True) if spread else pd.DataFrame(),
            notes=tuple(self.notes),
            digest=digest(self.text.sentences),
        )
        return table

    def _first_pass(
        self, batches: Sequence[Batch], kind: Kind, nulls: int
    ) -> tuple[Sums, dict[str, Tensor]]:
        """All sentences, through the encoder, or through a model that has no encoder; and by
        measure the largest value of any head of the null networks, on some of them."""
        if kind is Kind.ENCODER:
            trees, ranks = self._trees(), ranks_in(batches)
            sums = encoder_sums(self.model, batches, trees, self.shown)
            of = measures(kind, trees, ranks)
        else:
            self.notes.append("Syntax and rare words are measured for encoders only.")
            of = measures(kind)
            sums = measured(self.model.network, batches, of, shown=self.shown)
        if not nulls:
            return sums, {}
        rows = chosen(len(self.text.sentences), NULL_SENTENCES)
        self.counts["nulls"], some = len(rows), batches_of(batches, rows)
        of = {name: measure for name, measure in of.items() if name not in NOT_NULL}
        found: dict[str, list[Tensor]] = {name: [] for name in of}
        with bar(range(nulls), "null networks", "network", self.shown) as progress:
            for null in null_networks(self.model, nulls):
                for name, each in measured(null.network, some, of, 0).items():
                    found[name].append(largest(each.ratio().flatten(0, 1), 0))
                progress.update()
        return sums, {name: torch.stack(each).amax(0) for name, each in found.items()}

    def _trees(self) -> list:
        """The aligned trees; none, with a note, where there are none or of another language."""
        read = self.model.languages[0]
        if not self.text.trees:
            self.notes.append("The text has no trees, so syntax is not measured.")
        elif self.text.parser != "gold" and read not in ENGLISH:
            self.notes.append(
                f"The parser is English and the model reads {read}, so syntax is not measured."
            )
        else:
            return aligned(self.model, self.text)
        return []

    def _targeted(self, translates: bool) -> list[Batch]:
        """A subset of the sentences; with the model's own greedy translations as targets if it
        translates."""
        rows = chosen(len(self.text.sentences), TRANSLATED)
        sentences, targets = [self.text.sentences[row] for row in rows], None
        if translates:
            self.counts["translated"] = len(rows)
            self.notes.append(
                f"Decoder and cross-attention and importance by gradient are measured on "
                f"{len(rows)} sentences with the model's own greedy translations as targets."
            )
            targets = self.model.translate(sentences)
            if empty := sum(not each.strip() for each in targets):
                self.notes.append(f"Empty translations among these: {empty}.")
            taken = fitting(self.model, sentences, targets)
            if refused := len(sentences) - len(taken):
                self.notes.append(
                    f"Left out of these, since the model cannot read them: {refused}."
                )
            sentences, targets = ([each[at] for at in taken] for each in (sentences, targets))
        return self.model.batches(sentences, targets, PREDICTED_TOKENS)

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
        heads = all_heads(network)
        place = {"kind": [str(head.kind) for head in heads]}
        place |= {"layer": [head.layer + 1 for head in heads]}
        place |= {"head": [head.head + 1 for head in heads]}
        values = {name: value.numpy() for name, value in found.items()}
        return pd.DataFrame(place | values), NATS if loss else VECTORS


def digest(sentences: Sequence[str]) -> str:
    """Tells sentences, in their order, from others."""
    return sha256("\n".join(sentences).encode()).hexdigest()[:16]


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
