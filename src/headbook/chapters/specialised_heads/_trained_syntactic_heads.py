"""Page 13, models trained here: heads that follow a syntactic relation."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pandas as pd
import torch

from headbook.artefacts.heads import DEFAULT
from headbook.artefacts.model import trained
from headbook.artefacts.texts import HELD_OUT
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measure, measurements, text_of
from headbook.chapters.specialised_heads._head_tables import best_margins, best_rows
from headbook.chapters.specialised_heads._parser_effect import parser_effect
from headbook.chapters.tables import claim_row, stacked
from headbook.claims.ledger import load as ledger
from headbook.heads.arcs import PieceRule
from headbook.heads.measure import Selection, best_head
from headbook.heads.offset_baseline import offset_baseline
from headbook.heads.syntactic import best_accuracies
from headbook.heads.tokens import EosKeys
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.trees import RELATION_DIRECTIONS

BEST = "best"
OF_VERBS = [relation in ("nsubj", "dobj") for relation, _ in RELATION_DIRECTIONS]
SUBJECTS = [relation == "nsubj" for relation, _ in RELATION_DIRECTIONS]


def trained_here(config: Config, store: Store) -> Tables:
    """Best heads and baselines on every text, domains, the gain by luck, what choices move."""
    found = list(measurements(config, store, config.texts, updates=(None, 0)))
    best = stacked(_with_everything(each) for each in found)
    own = [each for each in found if each.text.name == HELD_OUT and each.run.update is None]
    return {
        "best": best,
        "domains": _domains(best),
        "parser_effect": parser_effect(config, store),
        "choices": stacked(_choices(config, store)),
        "claims": pd.DataFrame([*_claims(own), *_domain_claims(own)]),
    }


def _with_everything(measurement: Measurement) -> pd.DataFrame:
    """`best_rows`, and what choosing and scoring on all sentences gives, as the paper does."""
    everything = best_head(measurement.sums["syntactic"], Selection.EVERYTHING)
    baseline = offset_baseline(measurement.sums["offsets"], Selection.EVERYTHING)
    return best_rows(measurement).assign(
        everything=everything.score.tolist(),
        everything_low=everything.low.tolist(),
        everything_high=everything.high.tolist(),
        everything_baseline=baseline.accuracy.tolist(),
    )


def _domains(best: pd.DataFrame) -> pd.DataFrame:
    """Held-out sentences of trained models, by the kind of sentences of their corpus: Table 1."""
    kinds = {name: kind for kind, names in ledger().domains.items() for name in names}
    own = best[(best["text"] == HELD_OUT) & (best["update"] == BEST)]
    domain = own["corpus"].str.split("-").str[0].map(kinds).fillna("neither")
    columns = ["domain", "corpus", "model", "seed", "relation", "direction", "value", "low", "high",
               "baseline", "baseline_low", "baseline_high", "arcs"]  # fmt: skip
    return own.assign(domain=domain)[columns].reset_index(drop=True)


def _choices(config: Config, store: Store) -> Iterator[pd.DataFrame]:
    """The first model's held-out text under every piece rule and with EOS as a key."""
    model = trained(config.one_model(), store)
    text = text_of(model, HELD_OUT, config, store)
    variants = [("pieces", replace(DEFAULT, pieces=rule)) for rule in PieceRule]
    variants.append(("eos_keys", replace(DEFAULT, eos_keys=EosKeys.COUNTED)))
    for choice, choices in variants:
        rows = best_rows(measure(model, text, store, choices))
        yield rows.assign(choice=choice, option=str(getattr(choices, choice)))


def _claims(own: list[Measurement]) -> Iterator[dict[str, object]]:
    """Per model: the eight accuracies, and by how much the verb's relations lead."""
    for each in own:
        for row in best_rows(each).to_dict("records"):
            claim = f"voita-t1-{row['relation']}-{row['direction'].replace('_', '-')}"
            numbers = {name: row[name] for name in ("value", "low", "high", "baseline")}
            yield claim_row(claim, each.labels, **numbers)
        margins = best_margins(each)
        verbs = torch.tensor(OF_VERBS)
        lead = margins[:, verbs].mean(1) - margins[:, ~verbs].mean(1)
        yield claim_row("voita-f4-verb-relations-strongest", each.labels, *interval(lead))


def _domain_claims(own: list[Measurement]) -> Iterator[dict[str, object]]:
    """Subjects in short sentences minus subjects in long ones, pair by pair of models."""
    domains = ledger().domains
    short, long = ([each for each in own if each.trained.run.corpus.split("-")[0] in domains[name]]
                   for name in ("short", "long"))  # fmt: skip
    pairs = list(product(short, long))
    same = [(one, two) for one, two in pairs if one.labels["target"] == two.labels["target"]]
    for one, two in same or pairs:
        first, second = (
            best_accuracies(each.sums["syntactic"])[:, SUBJECTS].mean(1) for each in (one, two)
        )
        # Both texts number their sentences from 0; shifted, their resamples are independent.
        second = torch.cat([second[:1], second[1:].roll(1)])
        labels = {**one.labels, "model": f"{one.labels['model']} minus {two.labels['model']}"}
        yield claim_row("voita-t1-nsubj-easier-in-short", labels, *interval(first - second))
