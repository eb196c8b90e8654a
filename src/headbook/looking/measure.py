"""`hb.measure`: every head of a model on a text, as one table."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Literal

import pandas as pd
import torch
from torch import Tensor

from headbook.heads.collect import layer_sums
from headbook.heads.measure import RatioSums, largest
from headbook.heads.nulls import NULLS
from headbook.heads.repeats import REPEATS
from headbook.heads.scores import ranks_in
from headbook.looking.close import nulls as null_networks
from headbook.looking.diversity import diversity
from headbook.looking.effects import NATS, VECTORS, predicts
from headbook.looking.importance import (
    FEWEST,
    MOST,
    OPERATIONS,
    RESOLVING,
    batches_of,
    by_ablation,
    by_gradient,
    chosen,
    first_by,
    first_count,
    operations,
    resolved,
)
from headbook.looking.measured import KEY, Measured, without_intervals
from headbook.looking.naming import first_kind, shape_of
from headbook.looking.passes import Sums, aligned, bar, measures, text_sums
from headbook.looking.pictures import seen
from headbook.looking.random_tokens import random_sums
from headbook.looking.table import ABLATION, GRADIENT, columns, frame
from headbook.looking.text import Text, fitting, readable
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch
from headbook.types import HeadId, Kind, UserError

TOKENS, PREDICTED_TOKENS = 2048, 1024
"""Padded tokens of a batch; fewer where a vocabulary is predicted at every one of them."""
TRANSLATED = 200
"""Sentences that importance is measured on; a translation model translates these."""
NULL_SENTENCES = 100
"""Sentences that null networks are measured on at most."""
NULL_OPERATIONS, LARGE = 3e12, 2e12
"""Budgets of multiplications and additions, of all null networks and of diversity or gradients: for
large models they are measured on fewer sentences."""
PASSES = 4
"""Forward passes that diversity or a gradient costs as much as, about."""
DIVERSE_SENTENCES = 200
"""Sentences that diversity is measured on."""
ENGLISH = ("en", "und")
"""Languages that an English parser is used for; und is a language that is not known."""
NULL_DRAWS = 4
"""Sequences of repeated random tokens that null networks read."""
SHORT = 60
"""Seconds that are not announced."""
NOT_NULL = ("special", "entropy", "confidences", "positional_chance")
"""Measures that are not compared with null networks."""


def measure(
    model: Loaded,
    text: Text | Sequence[object],
    *,
    importance: bool = True,
    ablated: int | Literal["all"] | None = None,
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
        directions; attention to a word is summed over its pieces, and the mean over those of the
        word that asks
    importance_gradient: mean of |∂L/∂ξ|, nats per sentence (Michel et al. 2019, equation 2)
    importance_ablation: increase in loss without the head, nats per target token; without a loss,
        1 - cosine of the mean-pooled sentence vector

    Of causal self-attention there is no `next`; of an arc the word that comes later asks, and rare
    tokens, rivals and chance are among earlier ones. Beside these:

    first: weight on token 1, special or not, of the tokens after it (the attention sink)
    confidence_with_first, confidence_without_first: confidence of the same tokens
    induction, duplicate: random tokens, repeated: weight on the token behind the earlier copy, and
        on the copy (Olsson et al. 2022); `_shuffled` is the weight on the same places where the
        second half is shuffled. Of decoders alone, as is
    copying: share of random tokens whose own logit the head raises most, if it looks at them

    Suffixes: `_low`, `_high` bound a 95 % bootstrap interval over sentences, or over sequences of
    random tokens, and are empty for fewer than four; `_null` is the largest value of any head over
    `nulls` networks with permuted or redrawn weights; `_chance` a head that points at all tokens
    equally often; `_offset` the best fixed offset, `_tags` the best part-of-speech rule, both
    chosen on the same sentences (`hb.roles` uses halves).

    Translation models translate a subset of the sentences greedily; decoder and cross-attention and
    importance by gradient are measured on these. By default importance by ablation is that of the
    heads which the gradient puts first, one in ten and at least 16; it is NaN of the others.
    Sentences are doubled until no interval holds zero, as far as a budget of operations goes.
    `ablated="all"` is every head, on as many sentences as a budget allows (8 to 100), a number is
    every head on that many; without a loss it is every head, too. `importance=False`, `nulls=0` and
    `diverse=False` leave out the slowest parts; `decoder=False` measures the encoder alone of a
    translation model, and without importance it then translates nothing. The time that all of it
    takes is said before it begins, if it is over a minute. `attrs["headbook"]` holds `diversity`
    per layer, numbers of `sentences` and `notes`. Memory does not grow with the number of
    sentences, apart from the text itself, and one layer's weights are held at a time.

    Layers may differ in the number of their heads. Sentences that the model cannot take, mostly
    too long, are left out, which a note counts. UserError where it can take none,
    and for trees that belong to another text.

    Of a vision transformer `text` is a list of pictures, and the columns are `distance` (to the
    patches looked at, in patches), `special`, `confidence` and `high_norm` (weight on patches of
    high norm).
    """
    if hasattr(model, "grid"):
        return seen(model, text)
    _check(model, text, ablated, nulls)
    text, refused = readable(model, text)
    run = _Run(model, text, importance, ablated, nulls, diverse, decoder, progress)
    if refused:
        run.notes.append(f"Sentences left out, since the model cannot take them: {refused}.")
    return run.table()


def _check(model: Loaded, text: object, ablated: int | Literal["all"] | None, nulls: int) -> None:
    if not isinstance(text, Text):
        raise UserError(f"a {type(text).__name__} is no text; give hb.text(sentences)")
    if not text.sentences:
        raise UserError(f"{text.name} has no sentence to measure on")
    number = isinstance(ablated, int) and ablated >= 1
    if nulls < 0 or not (number or ablated in (None, "all")):
        raise UserError("nulls is 0 or more, and ablated 1 or more, or 'all'")


@dataclass
class _Run:
    """One call, and what is said about it beside the table."""

    model: Loaded
    text: Text
    importance: bool
    ablated: int | Literal["all"] | None
    nulls: int
    diverse: bool
    decoder: bool
    shown: bool
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def table(self) -> pd.DataFrame:
        network = self.model.network.eval()  # dropout would move importance
        kinds = list(shape_of(network))
        first, translates = first_kind(kinds), Kind.CROSS in kinds
        others = [kind for kind in kinds if kind is not first] if self.decoder else []
        self.heads, self.counts["all"] = all_heads(network), len(self.text.sentences)
        self.batches = self.model.batches(self.text.sentences, None, TOKENS)
        self.loss = predicts(self.model, self.batches[0])
        self.resolving = self.ablated is None and self.loss
        large = self._affordable(self.batches, PASSES, LARGE)
        if self.shown:
            self._say(large)
        sums, largest_of_nulls = self._first_pass(first)
        sums, spread, targeted, of_these, unit = {first: sums}, [], [], "", ""
        if self.diverse:
            some = batches_of(self.batches, self._some(min(large, DIVERSE_SENTENCES)))
            spread.append(diversity(network, [first], some))
        if self.importance or others:
            most = TRANSLATED if translates else min(large, TRANSLATED)
            targeted, of_these = self._targeted(translates, most)
            show = partial(bar, what="measuring", unit="batch", shown=self.shown)
            for kind in others:
                sums[kind] = layer_sums(network, targeted, kind, measures(kind), progress=show)
            if self.diverse and others:
                spread.append(diversity(network, others, targeted))
        if self.importance:
            self._add_importance(targeted, sums)
            unit = NATS if self.loss else VECTORS
        frames = [
            frame(
                kind,
                columns(each, largest_of_nulls if kind is first else {}),
                each["confidence"].there,
            )
            for kind, each in sums.items()
        ]
        table = pd.concat(frames, ignore_index=True)
        table = without_intervals(table, len(self.text.sentences))
        table.attrs[KEY] = Measured(
            model=self.model.name,
            origin=self.model.origin,
            text=self.text.name,
            parser=self.text.parser,
            sentences=self.counts,
            sums=sums,
            nulls=largest_of_nulls,
            null_count=self.nulls,
            importance=unit,
            diversity=pd.concat(spread, ignore_index=True) if spread else pd.DataFrame(),
            notes=tuple(self.notes),
            digest=digest(self.text.sentences),
            targeted=of_these,
        )
        return table

    def _some(self, count: int) -> list[int]:
        return chosen(len(self.text.sentences), count)

    def _first_pass(self, kind: Kind) -> tuple[Sums, dict[str, Tensor]]:
        """All sentences, through the encoder, or through a model that has no encoder; and by
        measure the largest value of any head of the null networks, on some of them."""
        trees, batches = self._trees(), self.batches
        sums = text_sums(self.model, batches, trees, self.shown, kind)
        start: list[int] = []
        if kind is Kind.DECODER:
            special = batches[0].input_boundary[0].tolist()
            count = special.index(False) if False in special else 0
            start = batches[0].target_in[0, :count].tolist()
            found, reason = random_sums(self.model, start)
            sums |= found
            if reason:
                self.notes.append(f"Copying is not measured: {reason}.")
        if not self.nulls:
            return sums, {}
        most = self._null_sentences()
        rows = self._some(most)
        if len(rows) == most < NULL_SENTENCES:
            self.notes.append(f"The model is large: null networks read {most} sentences.")
        self.counts["nulls"], some = len(rows), batches_of(batches, rows)
        of = measures(kind, trees, ranks_in(batches, kind))
        of = {name: each for name, each in of.items() if name not in NOT_NULL}
        best: dict[str, list[Tensor]] = {}
        with bar(range(self.nulls), "null networks", "network", self.shown) as progress:
            for null in null_networks(self.model, self.nulls):
                found = layer_sums(null.network, some, kind, of, 0)
                if kind is Kind.DECODER:
                    found |= random_sums(null, start, NULL_DRAWS, 0, [REPEATS])[0]
                for name, each in found.items():
                    best.setdefault(name, []).append(largest(each.ratio().flatten(0, 1), 0))
                progress.update()
        return sums, {name: torch.stack(each).amax(0) for name, each in best.items()}

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

    def _targeted(self, translates: bool, most: int) -> tuple[list[Batch], str]:
        """A subset of the sentences, and its digest; with the model's own greedy translations as
        targets if it translates."""
        rows = self._some(most)
        if most < TRANSLATED:
            self.notes.append(f"The model is large: gradients are of {len(rows)} sentences.")
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
        return self.model.batches(sentences, targets, PREDICTED_TOKENS), digest(sentences)

    def _add_importance(self, batches: Sequence[Batch], sums: Mapping[Kind, Sums]) -> None:
        """Adds the sums of importance to these."""
        sentences, heads = sum(map(len, batches)), self.heads
        removed = heads
        if self.loss:
            show = partial(bar, what="gradients", unit="batch", shown=self.shown)
            gradient = by_gradient(self.model, batches, show)
            _place(GRADIENT, gradient, heads, sums)
            if self.resolving:
                removed = [heads[at] for at in first_by(gradient.ratio())]
        most = self._ablated_sentences(batches, len(removed))
        show = partial(bar, what="removing heads", unit="head", shown=self.shown)
        if self.resolving:
            increase, count = resolved(self.model, batches, most, show, removed)
        else:
            count = min(most, sentences)
            increase = by_ablation(self.model, batches_of(batches, chosen(sentences, count)), show)
        self.counts["ablated"] = count
        which = "all heads"
        if len(removed) < len(heads):
            which = f"the {len(removed)} heads that the gradient puts first (ablated='all': of all)"
        self.notes.append(f"Importance by ablation is of {which}, on {count} sentences.")
        _place(ABLATION, increase, removed, sums)

    def _null_sentences(self) -> int:
        return min(self._affordable(self.batches, self.nulls, NULL_OPERATIONS), NULL_SENTENCES)

    def _ablated_sentences(self, batches: Sequence[Batch], removed: int) -> int:
        """The most sentences on which so many heads are removed in turn."""
        if isinstance(self.ablated, int):
            return self.ablated
        if self.resolving:
            return self._affordable(batches, removed, RESOLVING)
        return min(self._affordable(batches, removed, OPERATIONS), MOST)

    def _affordable(self, batches: Sequence[Batch], passes: int, budget: float) -> int:
        """The number of sentences, FEWEST at least, on which a budget allows so many passes."""
        tokens = sum(int(each.source_mask.sum()) + int(each.target_mask.sum()) for each in batches)
        cost = operations(self.model.network, self.loss) * passes
        return max(int(budget / cost * sum(map(len, batches)) / max(tokens, 1)), FEWEST)

    def _say(self, large: int) -> None:
        """One line on standard error: how long it will take, from the time of a few sentences."""
        heads, sentences = len(self.heads), len(self.text.sentences)
        some = self.batches[len(self.batches) // 2].select(slice(8))
        with torch.inference_mode():
            began = time.perf_counter()
            self.model.network(some)
            each = (time.perf_counter() - began) / len(some)  # seconds a sentence
        gradients = (DIVERSE_SENTENCES, self.diverse), (TRANSLATED, self.importance and self.loss)
        parts = {"": sentences}
        parts[""] += sum(PASSES * min(large, most, sentences) for most, done in gradients if done)
        if self.nulls:
            count = min(self._null_sentences(), sentences)
            parts["null networks (nulls=0 is without)"] = self.nulls * count
        if self.importance:
            removed = first_count(heads) if self.resolving else heads
            count = min(self._ablated_sentences(self.batches, removed), sentences)
            what = f"removing {removed} of {heads} heads in turn (importance=False is without)"
            parts[what] = removed * count
        whole = sum(parts.values()) * each
        if whole < SHORT:
            return
        said = [
            f"; up to {_time(count * each)} for {name}" for name, count in parts.items() if name
        ]
        print(
            f"{self.model.name}: {heads} heads, {sentences} sentences, about {_time(whole)}"
            + "".join(said),
            file=sys.stderr,
        )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _place(name: str, found: RatioSums, heads: Sequence[HeadId], sums: Mapping[Kind, Sums]) -> None:
    """Adds sums of these heads, [head], to those of their kinds, [layer, head]; NaN of others."""
    for kind, own in sums.items():
        at = [place for place, head in enumerate(heads) if head.kind is kind]
        layers, places = ([getattr(heads[each], axis) for each in at] for axis in ("layer", "head"))
        sides = []
        for side in (found.numerator, found.denominator):
            shape = (*side.shape[:2], *own["confidence"].there.shape)
            sides.append(side.new_full(shape, torch.nan))
            sides[-1][:, :, layers, places] = side[..., at]
        own[name] = RatioSums(*sides)


def digest(sentences: Sequence[str]) -> str:
    """Tells sentences, in their order, from others."""
    return sha256("\n".join(sentences).encode()).hexdigest()[:16]
