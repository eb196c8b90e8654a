"""The plan of a profile: its operations against the model's, its hours against recorded ones."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from headbook import tables
from headbook.artefacts import catalogue, costs
from headbook.artefacts.costs import SENTENCE, Device
from headbook.artefacts.language import LanguageRun, SharingRun, given, initial, light
from headbook.artefacts.model import TRAINED, ModelRun, Size
from headbook.chapters.config import Config
from headbook.corpora.batches import EOS, UNK, collate
from headbook.models.transformer import Transformer
from headbook.planning import plan
from headbook.runs.canonical import plain
from headbook.runs.store import Store
from headbook.training.config import TrainingConfig
from headbook.training.precision import Precision
from headbook.types import UserError

THREAD_RATES = {"Intel(R) Xeon(R) Processor": 385 / 2, "AMD EPYC": 430.0}
"""GFLOP/s of one thread in bfloat16 products, of the processors the published models were trained
on. The first: 350 to 420 on two cores, reference/budget.md, "Large matrix product, 2,048³". The
second: the same product on one core, by its own seconds, beside two trainings."""
TEXT = replace(catalogue.run("controlled-sov-lm-16-wide"), vocabulary=5_002, context=256)
VARIANTS = [
    SharingRun(**given(TEXT), key_value_heads=2),
    SharingRun(**given(TEXT) | {"size": replace(TEXT.size, heads=8)}),
    SharingRun(**given(TEXT), layer_heads=(2, 4)),
]
RUN = ModelRun("controlled-sov", Size(3, 64, 256, 8), 2_000, 0.1, TrainingConfig(updates=100))


def told(config: Config, folder: Path, **given: float) -> list[str]:
    """The lines of a plan, each of them one line, of a store in a folder."""
    lines = plan.lines(config, **{"rate": 400.0, "store": Store(folder)} | given)
    return "\n".join(lines).split("\n")


def recorded() -> Iterator[tuple[ModelRun, Device, float]]:
    """Every published translation model, what trained it, and the seconds that it took."""
    for made in tables.entries("26")["young"]["made"][0]["runs"]:
        if made["ingredients"]["stage"]["name"] == "model":
            run = _run(made["ingredients"]["config"])
            yield run, _device(made["hardware"]), made["seconds"]


def _device(hardware: dict) -> Device:
    assert hardware["processor"] in THREAD_RATES, "measure its rate, and add it here"
    rate = THREAD_RATES[hardware["processor"]] * hardware["threads"]
    return Device(rate, hardware["threads"])


def _run(config: dict) -> ModelRun:
    training = {k: v for k, v in config["training"].items() if k in ("updates", "tokens", "seed")}
    return ModelRun(config["corpus"], Size(**config["size"]), config["vocabulary"],
                    config["dropout"], TrainingConfig(**training))  # fmt: skip


def factor(run: ModelRun, device: Device, seconds: float) -> float:
    """Planned seconds over recorded ones."""
    return device.seconds(costs.work_of(run, run.training), run.size.width) / seconds


def test_the_published_trainings_took_what_the_plan_says_within_a_factor_of_two() -> None:
    """Those of three widths, translation of the test sets included."""
    found = [factor(*each) for each in recorded()]
    assert len(found) >= 5 and {run.size.width for run, _, _ in recorded()} >= {64, 128, 256}
    assert all(0.5 < each < 2 for each in found), found


@pytest.mark.parametrize(
    "planted", [{"tokens": 512}, {"tokens": 32_768}, {"updates": 100}], ids=str
)
def test_a_plan_of_another_training_is_out_of_that_factor(planted: dict) -> None:
    for run, device, seconds in recorded():
        wrong = replace(run, training=replace(run.training, **planted))
        assert not 0.5 < factor(wrong, device, seconds) < 2


@pytest.mark.parametrize(
    ("rate", "width", "vocabulary", "tokens_a_second"),
    # reference/budget.md: target tokens a second of a plain loop in bfloat16 on two cores
    [(385.0, 128, 4_000, 5_900), (385.0, 256, 8_000, 1_350), (385.0, 512, 8_000, 745)],
)
def test_the_expected_share_meets_other_measured_speeds(
    rate: float, width: int, vocabulary: int, tokens_a_second: float
) -> None:
    training = TrainingConfig(updates=1, tokens=2048)
    run = ModelRun("x", Size(6, width, 4 * width, 8), vocabulary, 0.1, training)
    seconds = Device(rate, threads=2).seconds(costs.work_of(run, training), width)
    assert 0.4 < 2048 / seconds / tokens_a_second < 2.5


def test_the_shares_that_bench_measured() -> None:
    matrix_units = Device(5_000.0, threads=2)
    assert 0.02 < matrix_units.share_at(128) < 0.04
    assert 0.055 < matrix_units.share_at(256) < 0.11


def test_a_share_given_is_taken_and_an_accelerators_is_the_aim() -> None:
    assert Device(400.0, share=0.5).share_at(128) == 0.5
    assert Device(700_000.0).share_at(512) == Device(700_000.0).share_at(128) == costs.AIM
    assert Device(100.0, share=0.5).seconds(1e12, 128) == pytest.approx(20)


def test_operations_are_six_a_parameter_and_token_without_embeddings() -> None:
    """Counted from the real model's weights, and the pairs of query and key by hand."""
    model = costs.shape(RUN.size, RUN.vocabulary)
    dense = sum(
        weight.numel() for name, weight in model.named_parameters()
        if not name.startswith(("source", "target")) and not name.endswith("_norm.weight")
        and not name.endswith("_norm.bias")
    )  # fmt: skip
    tokens = RUN.training.updates * RUN.training.tokens
    seen = 3 * (2 * SENTENCE + (SENTENCE + 1) / 2)  # encoder and cross, and half of the decoder
    expected = 6 * dense * tokens + 12 * 64 * seen * tokens
    assert costs.work_of(RUN, RUN.training) == pytest.approx(expected, rel=1e-9)
    assert "logits.weight" in dict(model.named_parameters())


def test_the_shape_has_the_parameters_of_the_model_and_no_storage() -> None:
    model = costs.shape(RUN.size, RUN.vocabulary)
    assert costs.parameters(RUN) == sum(p.numel() for p in Transformer(model.config).parameters())
    assert next(model.parameters()).device.type == "meta"


def test_memory_is_what_a_step_keeps_for_its_way_back() -> None:
    """Within a third of the tensors autograd keeps; the gradient of the logits comes after."""
    run = replace(RUN, training=TrainingConfig(updates=1, tokens=1024))
    sentence = [UNK] * (SENTENCE - 1) + [EOS]
    count = run.training.tokens // SENTENCE
    batch = collate([(sentence, sentence)] * count, range(count))
    model, kept = Transformer(costs.shape(run.size, run.vocabulary).config), {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = (storage.nbytes(), tensor)  # held, so no address comes twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch)
        functional.cross_entropy(logits.float().flatten(0, 1), batch.target_out.flatten())
    after = run.training.tokens * run.vocabulary * (costs.LOGIT_BYTES - 4)
    expected = costs.memory(run) - after - 12 * costs.parameters(run)
    assert sum(size for size, _ in kept.values()) == pytest.approx(expected, rel=1 / 3)


def test_disk_counts_every_snapshot_the_best_and_the_state_twice() -> None:
    kept = [update for update in range(1, 101) if RUN.training.is_snapshot(update) or update == 100]
    assert costs.disk(RUN) == 4 * costs.parameters(RUN) * (len(kept) + 1 + 6)


@pytest.mark.parametrize("given", [{"share": 0.0}, {"share": 1.01}, {"share": float("nan")},
                                   {"rate": 0.0}, {"rate": -1.0}, {"rate": float("nan")},
                                   {"rate": float("inf")}], ids=str)  # fmt: skip
def test_a_number_that_cannot_be_one_is_said_before_anything_is_measured(
    given: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "machine_rate", lambda precision: 1 / 0)
    with pytest.raises(UserError) as fault:
        list(plan.lines(Config("full"), **{"store": Store(tmp_path)} | given))
    assert next(iter(given)) in str(fault.value) and "\n" not in str(fault.value)


def test_no_corpus_is_read_and_a_missing_one_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headbook.corpora.readers.load", lambda *given: 1 / 0)
    monkeypatch.setattr("headbook.artefacts.model.load", lambda *given: 1 / 0)
    monkeypatch.setattr("headbook.chapters.config.load", lambda *given: 1 / 0)
    lines = told(Config("full"), tmp_path)
    named = [line for line in lines if "to fetch" in line]
    assert len(named) == len(Config("full").emerging_models())
    assert [line.split()[1] for line in named[:2]] == ["msdocs-ru", "msdocs-de"]
    assert "lines 1 to 6 give every corpus a model" in "\n".join(lines)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("profile", ["smoke", "quick", "laptop", "full"])
def test_a_plan_is_readable_at_100_columns_and_aligned(profile: str, tmp_path: Path) -> None:
    lines = told(Config(profile), tmp_path, rate=700_000.0)
    assert max(map(len, lines)) <= 100
    table = lines[lines.index("") + 1 :]
    table = table[: table.index("")]
    assert len({len(line) for line in table}) == 1
    assert len(table) == 1 + len(Config(profile).emerging_models())


def test_a_kept_model_takes_no_more_time(tmp_path: Path) -> None:
    first, second, *_ = Config("quick").models()
    keep(first, tmp_path, "cpu" if not torch.cuda.is_available() else "cuda")
    keep(second, tmp_path, "another device")
    rows = plan.trainings(Config("quick").emerging_models(), Device(400.0), Store(tmp_path))
    states = {row.run: row.state for row in rows}
    assert (states[first], states[second]) == (plan.KEPT, plan.TO_TRAIN)
    lines = told(Config("quick"), tmp_path)
    assert f"To come: {len(rows) - 1} of {len(rows)} trainings" in "\n".join(lines)
    assert [line.split()[-1] for line in lines if " controlled-" in line].count("kept") == 1
    assert rows[0].seconds_left == 0 < rows[0].seconds


def keep(run: ModelRun, root: Path, device: str) -> None:
    made = {"stage": plain(TRAINED), "config": plain(run), "inputs": {"corpus": "unread"},
            "policy": {"precision": "bf16-mixed", "device": device}}  # fmt: skip
    folder = root / "model" / str(len(list(root.glob("model/*"))))
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"ingredients": made}))


def test_sweeps_and_controls_are_counted() -> None:
    config = Config("laptop")
    bases = len(config.pruned_models())
    stages = plan.stages(config, Device(400.0))
    (sweep,) = (stage for stage in stages if stage.name == "λ sweep, gates in everything")
    assert sweep.runs == bases * len(config.preset.pruning.penalties)
    each = costs.work_of(config.pruned_models()[0], config.preset.pruning.training)
    assert each * sweep.runs == pytest.approx(sweep.operations, rel=0.1)  # vocabularies differ
    # in the encoder alone, and everywhere
    runs = [stage.runs for stage in stages if stage.name.strip() == "from scratch"]
    assert runs == [4 * 1, 4 * 2]


def test_language_models_are_counted() -> None:
    config = Config("laptop")
    stages = plan.stages(config, Device(400.0))
    (language,) = (stage for stage in stages if stage.name == "language models")
    assert language.runs == len({*config.language_models(), *config.variants()})
    run = config.language_models()[0]
    segments = run.training.updates * run.training.tokens / run.context
    # six a weight that is not looked up, and 12 · width for every pair of query and key
    weights = run.size.layers * 198_656 + 256 + 128 * run.vocabulary
    pairs = run.size.layers * (256 * 257 / 2 + 256)
    expected = segments * (6 * weights * 256 + 12 * 128 * pairs)
    assert costs.language_work(run) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("variant", [*VARIANTS, *light(TEXT)], ids=lambda run: type(run).__name__)
def test_a_variant_is_counted_by_its_own_weights(variant: LanguageRun) -> None:
    """Shared keys and DeLighT's narrow blocks have fewer than ours."""

    def weights(run: LanguageRun) -> int:
        model = initial(run, run.vocabulary)
        return sum(
            each.numel() for part in (model.decoder, model.logits) for each in part.parameters()
        )

    tokens = TEXT.training.updates * TEXT.training.tokens
    saved = costs.language_work(TEXT) - costs.language_work(variant)
    looks = 12 * (TEXT.size.width - variant.size.width) * tokens * TEXT.size.layers
    looks *= (TEXT.context + 1) / 2 + 1
    assert saved == pytest.approx(6 * (weights(TEXT) - weights(variant)) * tokens + looks)


def test_language_models_of_the_source_text_are_counted() -> None:
    config = Config("laptop")
    stages = plan.stages(config, Device(400.0))
    (found,) = (stage for stage in stages if stage.name == "language models of source text")
    runs = config.encoder_models()
    assert found.runs == len(runs) == 4
    assert found.operations == pytest.approx(sum(map(costs.encoder_work, runs)))
    # with one stack of two, and no cross attention, less than half of a translation model's
    whole = costs.work_of(config.one_model(), config.one_model().training)
    for run in runs:
        assert 0.1 < costs.encoder_work(run) / whole < 0.6


def test_the_rate_of_this_machine_is_measured_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SECONDS", 0.0)
    assert 0 < plan.machine_rate(Precision.FULL) < 1e6
