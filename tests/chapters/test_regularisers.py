"""Page 36: λ chosen on validation, changes against the base of one seed, known correlations."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.artefacts import regularising as regularised_runs
from headbook.artefacts.costs import Device
from headbook.artefacts.regularising import (
    CONSTANT,
    KINDS,
    NONE,
    Candidate,
    Made,
    Task,
    V,
    made,
    trained_all,
    tuned,
)
from headbook.chapters import config as configs
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import _removed_heads as removed_heads
from headbook.chapters.diversity import _seeds, regularisers
from headbook.chapters.diversity._regularised_claims import (
    BLEU,
    NATS,
    TERMS,
    Evidence,
    Gain,
    claims,
    gain_rows,
    mean_over_seeds,
    nats_gained,
)
from headbook.chapters.diversity._regularised_measures import (
    LEVELS,
    LOST,
    METRICS,
    PROBE,
    asked_of,
    reading,
)
from headbook.chapters.diversity.regularisers import (
    INDEX,
    UNTRAINED,
    changes,
    effects,
    explained,
    minus_base,
    selected,
)
from headbook.chapters.profile import PROFILES
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.heads.four_metrics import ATTENTION, DISSIMILARITY
from headbook.models.gates import all_heads
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.planning import plan
from headbook.runs.seeds import derived
from headbook.runs.store import Store
from headbook.training.regularising import Term
from headbook.training.scoring import Losses
from headbook.types import Kind, UserError

PAGE = "36_regularisers"
VARIANTS = (*map(str, Term), CONSTANT, V)
NOISE = np.random.default_rng(7).normal(size=100)
CORPORA = {"translation": "pairs-de", "language model": "text"}


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    yield regularisers.trained_here(Config("smoke"), Store.default())


# --------------------------------------------------------------------------- what is trained


def test_candidates_differ_from_their_base_in_the_regulariser_alone() -> None:
    asked = Config("laptop").regularising()
    for task in Task:
        base, candidates = asked.base(task), asked.candidates(task)
        names = [each.variant for each in candidates]
        assert set(names) == set(VARIANTS) and len(names) == 8 * 3 + 2
        for each in candidates:
            own = {"regulariser", "drop_head"}
            given = {k: v for k, v in vars(each.run).items() if k not in own}
            assert given == vars(base.run)
            if each.variant in TERMS:
                assert each.run.regulariser.kinds == KINDS[task]
                assert str(each.run.regulariser.term) == each.variant
                assert each.run.regulariser.strength == each.strength in asked.strengths
    assert KINDS[Task.TRANSLATION] == tuple(Kind) and KINDS[Task.LANGUAGE] == (Kind.DECODER,)


def test_drop_head_has_one_rate_or_turns_when_the_warm_up_ends() -> None:
    asked = Config("laptop").regularising()
    for task, turn in ((Task.TRANSLATION, 100 / 400), (Task.LANGUAGE, 200 / 400)):
        flat, v = (each.run.drop_head for each in asked.candidates(task)[-2:])
        assert (flat.start, flat.end, flat.turn) == (0.1, 0.1, None)
        assert (v.start, v.end, v.turn) == (0.1, 0.1, turn)
    short = Config("laptop", updates=10).regularising()
    assert short.candidates(Task.LANGUAGE)[-1].run.drop_head.turn == 0.5


def test_every_profile_trains_some_and_a_seed_is_one_of_each() -> None:
    for name in (each for each, profile in PROFILES.items() if not profile.joins):
        asked = Config(name).regularising()
        assert list(asked.further_seeds(Task.LANGUAGE)) == list(range(1, asked.seeds))
    asked = Config("laptop", seed=4, size="tiny", updates=7).regularising()
    runs = [each.run for task in Task for each in (asked.base(task), *asked.candidates(task))]
    assert {run.training.seed for run in runs} == {4} and asked.seeds == 1
    assert {run.training.updates for run in runs} == {7} and {run.size.layers for run in runs} == {
        3
    }
    assert (
        Config("smoke", corpus="controlled-svo").regularising().language.corpus == "controlled-svo"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"strengths": ()}, "strengths"),
        ({"strengths": (0.1, 0.1)}, "strengths"),
        ({"strengths": (0.0, 0.1)}, "strength 0"),
        ({"rates": (-0.1,)}, "strength 0"),
        ({"rates": ()}, "rates"),
        ({"terms": ()}, "terms"),
        ({"seeds": 0}, "seeds is 0"),
    ],
)
def test_a_bad_grid_is_refused_in_one_line(change: dict, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        replace(Config("smoke").regularising(), **change)
    assert "\n" not in str(caught.value)


def test_a_profile_without_regularisers_and_a_text_without_pairs_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UserError):
        Config("smoke", corpus="wikitext-2").regularising()
    bare = replace(PROFILES["smoke"], regularising=None)
    monkeypatch.setattr(configs, "PROFILES", {"smoke": bare})
    with pytest.raises(UserError, match="trains no regularisers"):
        Config("smoke").regularising()
    assert not [each for each in plan.stages(Config("smoke"), Device(1.0)) if "regul" in each.name]


def test_the_plan_counts_what_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regularised_runs, "made", Scored.of)
    own = Config("laptop").regularising()
    for asked in (own, replace(own, seeds=own.seeds + 2)):
        trained = [id(each) for found in trained_all(asked, Task.LANGUAGE, Store.default())
                   for each in found]  # fmt: skip
        assert len(set(trained)) == asked.trainings == 1 + 26 + (asked.seeds - 1) * 11
    stages = {each.name: each for each in plan.stages(Config("laptop"), Device(400.0))}
    assert {stages[f"regularisers, {task}"].runs for task in Task} == {own.trainings}


# --------------------------------------------------------------------------- what is chosen


@dataclass(frozen=True, eq=False)
class Scored(Made):
    """A model of a planted loss on validation text."""

    valid: float = 0.0

    @property
    def valid_nats(self) -> float:
        return self.valid

    @classmethod
    def of(cls, candidate: Candidate, store: Store) -> "Scored":
        """Weak ones are better on validation text, but for one term."""
        sign = -1 if candidate.variant == Term.SPANS else 1
        return cls(candidate, None, sign * candidate.strength)


def test_validation_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regularised_runs, "made", Scored.of)
    asked = replace(Config("laptop").regularising(), seeds=2, strengths=(0.1, 1.0, 3.0))
    first, kept = trained_all(asked, Task.TRANSLATION, Store.default())
    chosen = {each.asked.variant: each.asked.strength for each in kept}
    assert chosen.pop(Term.SPANS) == 3.0 and chosen.pop(NONE) == 0.0
    assert set(chosen.values()) == {0.1}
    assert {each.asked.run.training.seed for each in first} == {0}
    seeds = [each.asked.run.training.seed for each in kept]
    assert seeds == sorted(seeds) and set(seeds) == {0, 1} and len(kept) == 2 * 11


def test_of_equals_the_weaker_is_chosen() -> None:
    base = Config("laptop").regularising().candidates(Task.LANGUAGE)[0]
    grid = [Scored(replace(base, strength=strength), None, 2.0) for strength in (1.0, 0.1)]
    assert [each.asked.strength for each in tuned(grid)] == [0.1]


def test_strength_zero_is_a_candidate_and_is_the_base_of_the_first_seed() -> None:
    rows = [
        ("a", NONE, 0.0, 0, 2.0), ("a", "worse", 0.1, 0, 2.5), ("a", "worse", 1.0, 0, 3.0),
        ("a", "better", 0.1, 0, 1.9), ("a", "better", 1.0, 0, 1.5), ("a", "equal", 0.1, 0, 2.0),
        ("b", NONE, 0.0, 4, 1.0), ("b", "better", 0.1, 4, 1.2),
        ("a", NONE, 0.0, 1, 9.0), ("a", "worse", 0.1, 1, 0.1),  # further seeds decide nothing
    ]  # fmt: skip
    found = selected(
        pd.DataFrame(rows, columns=["task", "variant", "strength", "seed", "valid_nats"])
    )
    assert found.set_index(["task", "variant"])["strength"].to_dict() == {
        ("a", "worse"): 0.0, ("a", "better"): 1.0, ("a", "equal"): 0.0, ("b", "better"): 0.0,
    }  # fmt: skip
    assert found["best_strength"].tolist() == [0.1, 1.0, 0.1, 0.1]


# --------------------------------------------------------------------------- what is compared


def test_changes_are_against_the_base_of_the_same_task_and_seed() -> None:
    rows = [("t", NONE, 0, 5.0), ("t", NONE, 1, 7.0), ("l", NONE, 0, 1.0),
            ("t", "a", 1, 6.0), ("t", "a", 0, 5.5), ("l", "a", 0, 3.0)]  # fmt: skip
    values = pd.DataFrame(rows, columns=[*INDEX, "x"]).set_index(INDEX)
    assert minus_base(values)["x"].to_dict() == {
        ("t", "a", 1): -1.0, ("t", "a", 0): 0.5, ("l", "a", 0): 2.0,
    }  # fmt: skip


def test_a_term_s_own_change_and_rise_are_the_model_s_own() -> None:
    made_up = planted(seeds=2, variants=(Term.OUTPUTS, V))
    found = changes(made_up).set_index(INDEX)
    row = found.loc["translation", Term.OUTPUTS, 1]
    terms = made_up["terms"].set_index([*INDEX, "term"])["value"]
    own, base = (terms["translation", name, 1, Term.OUTPUTS] for name in (Term.OUTPUTS, NONE))
    assert row["own_term"] == pytest.approx(own - base)
    assert math.isnan(found.loc["translation", V, 1]["own_term"])
    quality = made_up["quality"].query("chosen").set_index(INDEX)
    pair = [quality.loc["translation", name, 1] for name in (NONE, Term.OUTPUTS)]
    assert row["gain_nats"] == pytest.approx(pair[0]["test_nats"] - pair[1]["test_nats"])
    assert row["gain_bleu"] == pytest.approx(pair[1]["bleu"] - pair[0]["bleu"])
    removed = made_up["removed"].set_index(INDEX)
    rises = [
        removed_heads.rise(removed.loc[("translation", name, 1)], 0.5)
        for name in (Term.OUTPUTS, NONE)
    ]
    assert row["rise_at_half"] == pytest.approx(rises[0] - rises[1])
    assert made_up["quality"]["chosen"].sum() < len(made_up["quality"])


def test_a_perfect_and_a_reversed_correlation_leave_their_shuffled_null() -> None:
    bought = np.arange(20.0).reshape(10, 2)
    found = explained(bought, 3 * bought + 1)
    assert found["correlation"] == pytest.approx(1.0) and found["low"] > 0.99
    assert -0.9 < found["null_low"] < -0.3 and 0.3 < found["null_high"] < 0.9
    reversed_ = explained(bought, -bought)
    assert reversed_["correlation"] == pytest.approx(-1.0) and reversed_["high"] < -0.99


def test_without_relation_the_correlation_lies_in_its_null_and_its_interval_is_wide() -> None:
    noise = np.random.default_rng(0)
    inside = 0
    for _ in range(20):
        found = explained(noise.normal(size=(10, 3)), noise.normal(size=(10, 1)).repeat(3, 1))
        inside += found["null_low"] <= found["correlation"] <= found["null_high"]
        assert found["high"] - found["low"] > 0.4
    assert inside >= 17


def test_seeds_of_one_regulariser_are_no_models_of_their_own() -> None:
    """A hundred seeds of four regularisers say no more than four."""
    bought = np.tile(np.arange(4.0)[:, None], (1, 100))
    found = explained(bought, bought)
    assert found["null_high"] > 0.9


def test_the_luck_of_a_base_is_no_correlation() -> None:
    """All models of a seed gain and buy as much more as their base has less of both."""
    noise = np.random.default_rng(1)
    bought, gain = noise.normal(size=(2, 10, 3))
    luck = np.array([0.0, 50.0, 100.0])
    assert explained(bought + luck, gain + luck) == pytest.approx(explained(bought, gain))


def test_what_never_changes_explains_nothing() -> None:
    found = explained(np.zeros((4, 1)), np.arange(4.0)[:, None])
    assert math.isnan(found["correlation"])


# --------------------------------------------------------------------------- heads taken away


def test_heads_leave_in_the_order_they_left_in_on_page_37() -> None:
    heads = all_heads(Transformer(TransformerConfig(9, 9, 2, 2, 8, 8, 4)))
    for order in range(3):
        noise = torch.Generator().manual_seed(derived(order, "heads taken away"))
        expected = [heads[at] for at in torch.randperm(len(heads), generator=noise).tolist()]
        assert removed_heads.shuffled(heads, order) == expected


def test_without_heads_is_the_model_with_so_many_closed() -> None:
    model = Transformer(TransformerConfig(9, 9, 1, 1, 8, 8, 4))

    def still_open() -> float:
        gates = [block.gate().sum() for _, _, block in model.attentions()]
        return float(sum(gates))

    rows = list(removed_heads.without_heads(model, still_open, (0.0, 0.5, 1.0), 2, "planted"))
    assert [row["valid_nats"] for row in rows] == [12.0, 6.0, 0.0] * 2
    assert [row["removed"] for row in rows] == [0, 6, 12] * 2
    assert all(block.gate is None for _, _, block in model.attentions())


# --------------------------------------------------------------------------- what is read


def test_a_model_that_was_read_is_not_read_again(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves of forty models is taken up; other text is read anew."""
    each = made(Config("smoke").regularising().base(Task.LANGUAGE), Store.default())
    asked = asked_of(each, Config("smoke"))
    kept = reading(each, asked, Store.default())
    labels = ["variant", "strength", "seed"]
    for name, rows in kept.tables.items():
        whole = tables[name].query("task == 'language model' and variant == @NONE")
        pd.testing.assert_frame_equal(
            rows.drop(columns=["task", *labels]).reset_index(drop=True),
            whole.drop(columns=["task", *labels]).reset_index(drop=True),
        )
    again = each.test_losses()
    assert torch.equal(again.nats, kept.losses.nats)
    assert torch.equal(again.tokens, kept.losses.tokens)

    def fail(self: Made) -> Losses:
        raise AssertionError("read again")

    monkeypatch.setattr(Made, "test_losses", fail)
    reading(each, asked, Store.default())
    with pytest.raises(AssertionError, match="read again"):
        reading(each, replace(asked, lost=asked.lost - 1), Store.default())


def test_fewer_sentences_are_fewer_pairs_and_no_fewer_segments() -> None:
    for sentences in (None, 17):
        config = Config("quick", sentences=sentences)
        asked = {
            task: asked_of(Scored(config.regularising().base(task), None), config) for task in Task
        }
        pairs, segments = asked[Task.TRANSLATION], asked[Task.LANGUAGE]
        few = sentences or PROBE[Task.TRANSLATION], sentences or LOST[Task.TRANSLATION]
        assert (pairs.probe, pairs.lost) == few
        assert (segments.probe, segments.lost) == (PROBE[Task.LANGUAGE], LOST[Task.LANGUAGE])
        assert pairs.levels == LEVELS and pairs.orders == config.preset.pruning.orders


# --------------------------------------------------------------------------- the page


def test_tables_have_every_model_and_the_one_before_training(tables: Tables) -> None:
    quality = tables["quality"]
    variants = [NONE, Term.POSITIONS, Term.OUTPUTS, CONSTANT, V]
    for task in Task:
        assert list(quality.loc[quality["task"] == task, "variant"]) == variants
        rows = tables["diversity"].query("task == @task")
        assert set(rows["variant"]) == {*variants, UNTRAINED}
        assert set(rows["kind"]) == set(KINDS[task]) and set(rows["metric"]) == set(METRICS)
        assert set(tables["terms"].query("task == @task")["term"]) == set(Term)
    assert quality.set_index("task")["bleu"].isna().to_dict() == {
        Task.TRANSLATION: False, Task.LANGUAGE: True,
    }  # fmt: skip
    assert list(quality["perplexity"].isna()) == list(~quality["bleu"].isna())
    assert tables["diversity"]["value"].notna().all()


def test_losses_are_those_of_the_training_without_padding(tables: Tables) -> None:
    """Translation in 32 bits: what validation found at the last update, and all heads open."""
    for task in Task:
        base = made(Config("smoke").regularising().base(task), Store.default())
        everything = base.valid_sample(10_000)
        assert base.nats(base.model.model(), everything) == pytest.approx(base.valid_nats, rel=1e-4)
        rows = tables["removed"].query("task == @task and variant == @NONE and share == 0")
        part = base.valid_sample({Task.TRANSLATION: 40, Task.LANGUAGE: LOST[Task.LANGUAGE]}[task])
        assert base.nats(base.model.model(), part) == pytest.approx(rows["valid_nats"].iloc[0])


def test_a_term_in_the_loss_is_smaller_at_the_end(tables: Tables) -> None:
    own = tables["changes"].dropna(subset="own_term").set_index(["task", "variant"])["own_term"]
    assert len(own) == 4 and (own < 0).all()


def planted(seeds: int, variants: tuple[str, ...] = VARIANTS) -> Tables:
    """Tables as they are of a whole run, of random numbers; λ of 1 is chosen of two."""
    noise = np.random.default_rng(seeds)
    names = [(NONE, 0.0, True), *((name, 1.0, True) for name in variants)]
    models = [(str(task), *name, seed) for task in Task for seed in range(seeds) for name in names]
    models += [(str(task), name, 0.1, False, 0) for task in Task for name in variants]
    quality = pd.DataFrame(models, columns=["task", "variant", "strength", "chosen", "seed"])
    for column in ("valid_nats", "test_nats", "bleu", "perplexity"):
        quality[column] = noise.normal(4, 0.1, len(quality))
    quality.loc[quality["task"] == Task.LANGUAGE, "bleu"] = float("nan")
    kept = quality.loc[quality["chosen"], ["task", "variant", "strength", "seed"]]
    start = kept[kept["variant"] == NONE].assign(variant=UNTRAINED)
    found: Tables = {
        "quality": quality,
        "diversity": crossed(pd.concat([kept, start]), noise, kind=["decoder"], layer=[1, 2],
                             metric=list(METRICS)),
        "terms": crossed(kept, noise, term=list(map(str, Term))),
        "removed": crossed(kept, noise, order=[0, 1], share=[0.0, 0.5]).rename(
            columns={"value": "valid_nats"}
        ),
    }  # fmt: skip
    found["changes"] = changes(found)
    found["explained"] = regularisers.explained_rows(found["changes"])
    gained = [
        Gain((row.task, row.variant, column), row.seed, getattr(row, column) + NOISE)
        for row in found["changes"].itertuples()
        for column in (NATS, BLEU)
        if not math.isnan(getattr(row, column))
    ]
    drawn = mean_over_seeds(gained)
    return found | {
        "gains": gain_rows(gained),
        "claims": claims(Evidence(found["changes"], CORPORA, drawn), found["explained"]),
    }


def crossed(rows: pd.DataFrame, noise: np.random.Generator, **columns: list) -> pd.DataFrame:
    """Every row with every combination of the columns, and a random value."""
    for name, values in columns.items():
        rows = rows.merge(pd.DataFrame({name: values}), how="cross")
    return rows.assign(value=noise.normal(size=len(rows)))


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_the_page_stands_with_any_number_of_seeds(seeds: int) -> None:
    made_up = planted(seeds)
    found = ledger.load()
    rows = checked(found, made_up["claims"], PAGE, "test")
    assert set(rows["claim"]) == {each.id for each in found.claims if each.study == PAGE}
    of_one = ("regulariser-moves-own-term", "regulariser-bears-removal")
    unsure = rows["claim"].isin(of_one) & (seeds == 1)
    assert rows.loc[unsure, "low"].isna().all() and rows.loc[~unsure, "low"].notna().all()
    assert rows["value"].notna().all()
    facts = regularisers.facts(made_up)
    assert facts["seeds"] == str(seeds) and facts["of_language"] == "10"
    assert len(made_up["changes"]) == 2 * 10 * seeds


def test_a_single_seed_s_gain_has_the_interval_of_its_test_sentences() -> None:
    rows = planted(1)["claims"].set_index(["claim", "model"])
    own = rows.loc[("li-outputs-raise-bleu", f"translation, {Term.OUTPUTS}")]
    ends = np.quantile(NOISE, [0.025, 0.975])
    np.testing.assert_allclose([own["low"], own["high"]], own["value"] + ends)
    for claim, model in (("li-outputs-best-alone", "translation"),
                         ("xray-helps-translation-more", Term.SPREAD)):  # fmt: skip
        apart = rows.loc[(claim, model)]  # the same noise on both sides
        np.testing.assert_allclose([apart["low"], apart["high"]], apart["value"])


def test_sentences_drawn_again_are_those_of_both_models() -> None:
    """Twice as bad at every token is a gain of minus one half of the base, whoever is drawn."""
    tokens = torch.tensor([1, 5, 9, 2])
    base = Losses(torch.tensor([1.0, 20.0, 3.0, 0.5], dtype=torch.float64), tokens)
    same = nats_gained(base, base)
    np.testing.assert_array_equal(same, np.zeros(len(same)))
    worse = Losses(base.nats + tokens * 0.25, tokens)
    np.testing.assert_allclose(nats_gained(base, worse), -0.25)
    uneven = Losses(base.nats - torch.tensor([0.0, 17.0, 0.0, 0.0]), tokens)
    found = nats_gained(base, uneven)
    assert found.min() == 0 and found.mean() == pytest.approx(17 / 17, rel=0.15)


def test_gains_are_of_the_models_that_were_kept(tables: Tables) -> None:
    """Each lies about what the tables say it is, in nats of both tasks and BLEU of one."""
    rows = tables["gains"].set_index(["task", "variant", "gain"])
    gained = tables["changes"].set_index(["task", "variant"])
    assert len(rows) == 4 * 2 + 4
    for (task, variant, column), row in rows.iterrows():
        assert row["low"] <= gained.loc[(task, variant), column] <= row["high"]


def test_claims_compare_what_they_say() -> None:
    made_up = planted(3)
    rows, changed = made_up["claims"], made_up["changes"].set_index(["task", "variant"])
    values = rows.set_index(["claim", "model"])["value"]
    bleu = changed.loc["translation"]["gain_bleu"]
    assert values["li-outputs-raise-bleu", f"translation, {Term.OUTPUTS}"] == pytest.approx(
        bleu[Term.OUTPUTS].mean()
    )
    others = np.maximum(bleu[Term.SUBSPACE].to_numpy(), bleu[Term.POSITIONS].to_numpy())
    expected = (bleu[Term.OUTPUTS].to_numpy() - others).mean()
    assert values["li-outputs-best-alone", "translation"] == pytest.approx(expected)
    gains = [changed.loc[str(task), Term.SPREAD]["gain_nats"].mean() for task in Task]
    assert values["xray-helps-translation-more", Term.SPREAD] == pytest.approx(gains[0] - gains[1])
    lost = changed.loc["language model", V]["rise_at_half"].mean()
    assert values["regulariser-bears-removal", f"language model, {V}"] == pytest.approx(lost)
    row = made_up["explained"].query("task == 'translation' and metric == @DISSIMILARITY").iloc[0]
    claim = rows[rows["claim"] == "diversity-explains-gain"].iloc[0]
    assert (claim["value"], claim["baseline"]) == (row["correlation"], row["null_high"])
    assert set(made_up["explained"]["metric"]) == {DISSIMILARITY, ATTENTION}


def test_a_term_that_was_not_trained_has_no_row(tables: Tables) -> None:
    rows = checked(ledger.load(), tables["claims"], PAGE, "test")
    assert "li-positions-raise-bleu" in set(rows["claim"])
    assert not set(rows["claim"]) & {"li-subspaces-raise-bleu", "lee-inter-head-helps",
                                     "li-outputs-best-alone"}  # fmt: skip


# --------------------------------------------------------------------------- facts and drawing


def test_effects_are_means_with_intervals_and_the_choice_of_validation() -> None:
    made_up = planted(3)
    quality = made_up["quality"]
    worst = (quality["variant"] == Term.SPREAD) & (quality["seed"] == 0)
    quality.loc[worst, "valid_nats"] = 99.0  # both strengths: the base is selected
    best = (quality["variant"] == Term.QUERIES) & quality["chosen"] & (quality["seed"] == 0)
    quality.loc[best, "valid_nats"] = 0.0
    found = effects(made_up).set_index("variant")
    assert found.loc[Term.QUERIES, "selected"] != found.loc[Term.SPREAD, "selected"]
    assert found.loc[Term.OUTPUTS, "paper"] == pytest.approx(24.78 - 24.13)
    own = made_up["changes"].query("task == 'translation' and variant == @V")["gain_bleu"]
    assert found.loc[V, "value"] == pytest.approx(own.mean())
    assert found.loc[V, "low"] < own.mean() < found.loc[V, "high"]
    assert (found["p_holm"] <= 1).all()
    assert effects(made_up, "language model", "gain_nats")["paper"].isna().all()


def test_the_loss_of_every_strength_is_beside_that_of_zero() -> None:
    made_up = planted(2)
    shown = regularisers.strengths(made_up)
    assert list(shown)[2:] == ["λ = 0", "λ = 0.1", "λ = 1.0"] and len(shown) == 2 * 10
    quality = made_up["quality"].query("task == 'translation' and seed == 0")
    loss = quality.set_index(["variant", "strength"])["valid_nats"]
    added = loss[V, 1.0] - loss[NONE, 0.0]
    row = shown[(shown["task"] == "translation") & (shown["regulariser"] == V)].iloc[0]
    assert float(row["λ = 1.0"].replace("−", "-")) == pytest.approx(added, abs=5e-4)


def test_a_mean_over_seeds_has_student_s_interval() -> None:
    frame = pd.DataFrame({"name": ["a"] * 3 + ["b"], "x": [1.0, 2.0, 3.0, 5.0]})
    rows = _seeds.over_seed(frame, ["name"], "x").set_index("name")
    assert rows.loc["a", "value"] == 2 and rows.loc["a", "seeds"] == 3
    assert rows.loc["a", "high"] == pytest.approx(2 + 4.302653 / math.sqrt(3))
    assert math.isnan(rows.loc["b", "low"]) and rows.loc["b", "value"] == 5


def test_smoke_tables_give_facts_and_pictures(tables: Tables) -> None:
    facts = regularisers.facts(tables)
    assert facts["outputs_paper"] == "+0.65" and facts["seeds"] == "1"
    assert len(regularisers.bought(tables)) == 8
    assert set(regularisers.without_heads(tables)["variant"]) >= {NONE, V}
