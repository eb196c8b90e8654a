"""What a profile tells: models, texts, budgets. The profiles themselves stand in profiles.py."""

from dataclasses import dataclass

from headbook.artefacts.language import DroppingRun, LanguageRun, SharingRun
from headbook.artefacts.model import ModelRun
from headbook.artefacts.texts import HELD_OUT
from headbook.studies.encoder_runs import LayerSample
from headbook.studies.regularised_runs import Regularising
from headbook.studies.specialising_runs import Specialising
from headbook.training.config import TrainingConfig


@dataclass(frozen=True)
class Pruning:
    """What part 2 of the book does with a profile's models.

    Penalties are λ of one head, in nats a target token, whatever the number of gated blocks.
    """

    corpora: tuple[str, ...]  # whose models are swept; the first is swept with every seed
    encoder_penalties: tuple[float, ...]
    all_penalties: tuple[float, ...]
    training: TrainingConfig  # of a model that is pruned, from a trained one
    gate_factor: float = 100.0  # times the weights' learning rate; 1 in the paper's long training
    controls: int = 4  # counts of heads that have a random-head control
    scratch_corpora: tuple[str, ...] | None = None  # which have from-scratch controls; all if None
    scratch_encoder_corpora: tuple[str, ...] | None = None  # with gates in the encoder; or those
    scratch_encoder: int = 4  # counts that have one, gates in the encoder alone
    scratch_all: int = 4  # the same with gates everywhere
    encoder_corpora: tuple[str, ...] | None = None  # swept with gates in the encoder alone; or all
    examined_corpora: tuple[str, ...] | None = None  # whose heads are scored singly; all if None
    translated: int = 500  # sentences of a test set that masks are scored on, greedily
    examined: int = 500  # sentences that importance and relevance are measured on
    levels: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    orders: int = 3  # random orders beside one that was measured


@dataclass(frozen=True)
class Profile:
    """Which models a study reads, on which texts, with how many sentences at most."""

    name: str
    models: tuple[ModelRun, ...]
    pruning: Pruning
    texts: tuple[str, ...] = (HELD_OUT,)
    sentences: int | None = None
    emerging: tuple[ModelRun, ...] = ()  # of other widths, for when heads specialise
    specialising: Specialising | None = None  # and what makes them
    language: tuple[LanguageRun, ...] = ()  # decoder-only, of both settings of the X-raying article
    varied: LanguageRun | None = None  # as described, beside which its variants are put:
    sharing: tuple[SharingRun, ...] = ()  # with other heads
    dropping: tuple[DroppingRun, ...] = ()  # trained with DropHead
    varied_seeds: int = 1  # of that one and of its variants, from its own seed on
    layers: LayerSample | None = None  # for language models of the first model's source side
    regularising: Regularising | None = None
