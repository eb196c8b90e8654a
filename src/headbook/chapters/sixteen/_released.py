"""A released translation model with heads closed: texts and runs that the pages of this part share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from headbook import paths
from headbook.corpora.readers import load as corpus
from headbook.models.gates import all_heads
from headbook.pruning.ranking import keep_one
from headbook.released.firefox import FirefoxModel, load_firefox
from headbook.runs.store import Store
from headbook.stages.released_masked import (
    Mask,
    ReleasedMasked,
    ReleasedMaskedRun,
    released_masked,
)
from headbook.syntax.treebank import read_conllu
from headbook.types import HeadId, Kind, UserError

SAMPLE, TEST = "ewt-sample", "ntrex-pt"
CHOSEN_FROM, CHOSEN = 1000, 200
"""NTREX sentences 1,000 to 1,199 are for choosing: orders of pruning, and the head that stays.
BLEU is of sentences before them."""
SHORT = {Kind.ENCODER: "", Kind.CROSS: "cross "}


@dataclass(frozen=True)
class Subject:
    """A student that reads English, and the texts that its heads are closed on."""

    model: FirefoxModel
    store: Store

    @classmethod
    def of(cls, name: str, store: Store) -> "Subject":
        """UserError for a model that does not read English: the texts are English."""
        model = load_firefox(name)
        if model.languages != ("en", "pt"):
            raise UserError(
                f"{name} translates {' to '.join(model.languages)}, and references are known for "
                "en to pt: name firefox-en-pt"
            )
        return cls(model, store)

    @cached_property
    def heads(self) -> tuple[HeadId, ...]:
        return tuple(all_heads(self.model.network))

    @property
    def one_out(self) -> tuple[Mask, ...]:
        """The whole model, and the model without each head."""
        return ((), *((head,) for head in self.heads))

    @property
    def one_left(self) -> tuple[Mask, ...]:
        """The whole model, and the model with each head alone in its block."""
        return ((), *(keep_one(self.heads, head) for head in self.heads))

    def on_sample(self, masks: Sequence[Mask], sentences: int) -> ReleasedMasked:
        """Losses on the model's own translations of the bundled sentences."""
        trees = read_conllu(paths.DATA / "sample" / "ewt-test-500.conllu")[:sentences]
        run = ReleasedMaskedRun(tuple(masks), translated=False)
        return released_masked(self.model, [tree.text for tree in trees], None, run, self.store)

    def on_choosing(self, masks: Sequence[Mask]) -> ReleasedMasked:
        """Losses on NTREX sentences that are not among those tested."""
        run = ReleasedMaskedRun(tuple(masks), translated=False)
        return released_masked(self.model, *self.choosing, run, self.store)

    @cached_property
    def choosing(self) -> tuple[list[str], list[str]]:
        """Sentences and references for choosing heads and orders."""
        return _ntrex(CHOSEN_FROM, CHOSEN)

    def on_test(self, masks: Sequence[Mask], sentences: int) -> ReleasedMasked:
        """Losses and BLEU on the first sentences of NTREX; UserError where they run into others."""
        if not 0 < sentences <= CHOSEN_FROM:
            raise UserError(
                f"tested is {sentences}: give 1 to {CHOSEN_FROM:,}, heads are chosen on later ones"
            )
        run = ReleasedMaskedRun(tuple(masks))
        return released_masked(self.model, *_ntrex(0, sentences), run, self.store)


def _ntrex(first: int, count: int) -> tuple[list[str], list[str]]:
    pairs = next(iter(corpus(TEST).tests.values())).first(first + count)
    return list(pairs.source)[first:], list(pairs.target)[first:]


def label(head: HeadId) -> str:
    """`L6H5`, or `cross L1H3` of cross-attention."""
    return f"{SHORT[head.kind]}L{head.layer + 1}H{head.head + 1}"


def named(labels: Sequence[str], heads: Sequence[HeadId]) -> tuple[HeadId, ...]:
    """The heads of these labels, all of them for none; UserError for one the model lacks."""
    known = {label(head): head for head in heads}
    if unknown := [each for each in labels if each not in known]:
        raise UserError(
            f"the model has no head {unknown[0]!r}: heads are called L1H1, or cross L1H1"
        )
    return tuple(known[each] for each in labels) or tuple(heads)
