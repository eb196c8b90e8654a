"""Before a training: what it takes, which models there are, and what another machine needs."""

import gzip
import hashlib
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headbook import paths, recipes, tables
from headbook.cli import app
from headbook.corpora.readers import load
from headbook.models import checkpoint
from headbook.models.transformer import Transformer
from headbook.recipes import catalogue
from headbook.released import catalogue as released
from headbook.runs.canonical import plain
from headbook.runs.store import Store
from headbook.text.subwords import Subwords
from headbook.training.config import TrainingConfig
from headbook.training.listing import COLUMNS, lines, missing
from headbook.training.models import EncoderRun, ModelRun, Size, corpus_of, run
from headbook.training.plan import SENTENCE, SHARE, cost
from headbook.training.plan import lines as planned
from headbook.training.train import trained
from headbook.types import UserError

NAME = "controlled-sov-16"
SHAPE = {"layers": 3, "width": 64, "feed_forward": 256, "heads": 8}
RUN = ModelRun("controlled-sov", Size(**SHAPE), 2_000, 0.1, TrainingConfig(updates=100))


def headbook(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


# ------------------------------------------------------------------ the plan


def test_operations_are_six_a_parameter_and_token_without_embeddings() -> None:
    """Counted from the real model's weights, and the pairs of query and key by hand."""
    parameters, work = cost(RUN)
    weights = dict(Transformer(RUN.config(2_000, 2_000)).named_parameters())
    assert parameters == sum(weight.numel() for weight in weights.values())
    used = sum(weight.numel() for name, weight in weights.items()
               if not name.startswith(("source", "target")) and "er_norm." not in name)  # fmt: skip
    tokens = 100 * RUN.training.tokens
    seen = 3 * (2 * SENTENCE + (SENTENCE + 1) / 2)  # encoder and cross, and half of the decoder
    assert work == pytest.approx(6 * used * tokens + 12 * 64 * seen * tokens, rel=1e-9)
    encoder = cost(EncoderRun(RUN, RUN.training))
    assert encoder[0] < parameters and encoder[1] < work


def test_hours_are_of_a_share_of_the_rate() -> None:
    first, line = planned([NAME], rate=400.0)
    hours = cost(run(NAME))[1] / (400e9 * SHARE) / 3600
    assert "400 GFLOP/s" in first and line.startswith(f"{NAME}: 20 updates")
    assert line.endswith(f"{hours:,.2f} hours")
    with pytest.raises(UserError, match="rate is nan"):
        list(planned([NAME], rate=float("nan")))


def test_a_plan_measures_the_machine_and_trains_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "runs"))
    result = headbook("train", NAME, "--plan")
    assert result.exit_code == 0 and NAME in result.stdout
    assert not (tmp_path / "runs").exists()


# ------------------------------------------------------------------ the list


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "runs"))
    return Store(tmp_path / "runs")


def rows(*names: str) -> dict[str, dict[str, str]]:
    """The printed cells of every line, by the model's name."""
    head, *body = lines(names)
    starts = [head.index(column) for column in COLUMNS]
    cells = [[line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
             for line in body]  # fmt: skip
    return {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in cells}


def keep(store: Store, name: str) -> Path:
    """The untrained model of that name, as if it had been trained on a corpus that is not here."""
    asked = run(name)
    folder = store.root / asked.stage.name / "0123456789abcdef"
    folder.mkdir(parents=True)
    words = Subwords.train(["the dog sees a cat", "a cat likes the dog"], 60)
    for side in ("source", "target"):
        words.save(folder / f"{side}.json")
    model = Transformer(asked.config(len(words), len(words)))
    checkpoint.save_model(model, folder / "best.safetensors")
    made = {"stage": plain(asked.stage), "config": plain(asked), "policy": {"device": "cpu"}}
    (folder / "run.json").write_text(json.dumps({"ingredients": made}))
    return folder


def test_every_model_of_the_book_is_in_a_line(store: Store) -> None:
    found = rows()
    families = {each.family for each in catalogue().values()}
    assert found.keys() == families | released.catalogue().keys()
    count = sum(each.seeds for each in catalogue().values())
    assert sum(int(found[name]["models"]) for name in families) == count


def test_bleu_is_the_published_one(store: Store) -> None:
    published = tables.cells(10, "bleu").set_index(["model", "test", "casing"])
    score = published.loc[("mixture-fr-256", "msdocs-fr", "cased"), "score"]
    assert rows("mixture-fr-256")["mixture-fr-256"]["BLEU"] == f"{float(score):.1f}"
    family = rows()["tatoeba-de-128-more-updates"]  # of one seed, and the others are not known
    assert int(family["models"]) == 3 and family["BLEU"] != "–" and family["weights"] == "1 here"


def test_what_is_kept_is_here_and_no_longer_missing(store: Store) -> None:
    family = "tatoeba-de-{width}"
    assert rows()[family]["weights"] == "not here"
    folder = keep(store, "tatoeba-de-64")
    assert rows()[family]["weights"] == "1 here"
    assert rows("tatoeba-de-64")["tatoeba-de-64"]["weights"] == "here"
    left = headbook("models", "--missing", family).stdout.split()
    assert left == missing([family]) == ["tatoeba-de-256"]
    record = json.loads((folder / "run.json").read_text())
    record["ingredients"]["config"]["dropout"] = 0.2  # another config is another model
    (folder / "run.json").write_text(json.dumps(record))
    assert missing([family])[0] == "tatoeba-de-64"


# ------------------------------------------------------------------ the pack

HEAD = """
[{name}]
title = "t"
kind = "{kind}"
target = "de"
licence = "l"
pairs = 2
bytes = 3
"""
PAIRS = {
    "train.tsv": "the dog sleeps\tder Hund schläft\na cat sees it\teine Katze sieht es\n" * 4,
    "valid.tsv": "it rains\tes regnet\n",
    "test.tsv": "my sister sings\tmeine Schwester singt\nhe didn't\ter nicht\n",
}
MODEL = """
[{name}]
task = "translation"
corpus = "{corpus}"
size = [1, 16, 32, 2]
vocabulary = 40
dropout = 0.1
updates = 2
tokens = 100
precision = "32-true"
longest = 0.2
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Corpora of a mirror, one of them absent, a download that a test set is taken out of, and a
    model of each."""
    root = tmp_path / "first"
    (root / "mirror" / "toy-de").mkdir(parents=True)
    for name, folder in (("DATA", "mirror"), ("RUNS", "runs"), ("DOWNLOADS", "raw")):
        monkeypatch.setenv(f"HEADBOOK_{name}", str(root / folder))
    monkeypatch.setattr(paths, "DATA", root)
    entries = []
    for name in ("toy-de", "absent-de"):
        rows = []
        for part, text in PAIRS.items():
            packed = gzip.compress(text.encode(), mtime=0)
            digest, address = hashlib.sha256(packed).hexdigest(), f"{name}/{part}.gz"
            rows.append(f'{{ part = "{part}", path = "{address}", sha256 = "{digest}" }}')
            if name == "toy-de":
                (root / "mirror" / address).write_bytes(packed)
        entries.append(HEAD.format(name=name, kind="parallel") + f"mirror = [{', '.join(rows)}]\n")
    (root / "raw" / "far").mkdir(parents=True)
    rows = []
    for part, text in PAIRS.items():
        (root / "raw" / "far" / f"far.{part}").write_text(text)
        url, digest = f"https://nowhere/far.{part}", hashlib.sha256(text.encode()).hexdigest()
        rows.append(f'{{ part = "{part}", url = "{url}", sha256 = "{digest}" }}')
    entries.append(HEAD.format(name="far-de", kind="parallel") + f"public = [{', '.join(rows)}]\n"
                   'held_out = ["toy-de"]\n')  # fmt: skip
    (root / "corpora.toml").write_text("".join(entries))
    models = [MODEL.format(name=name[:-3], corpus=name) for name in ("toy-de", "absent-de",
                                                                     "far-de")]  # fmt: skip
    (root / "models.toml").write_text("".join(models))
    for cache in (recipes._read, corpus_of):
        cache.cache_clear()
    yield root
    for cache in (recipes._read, corpus_of):
        cache.cache_clear()


def packed_files(folder: Path) -> dict[str, int]:
    """Every packed file and when it was written, in nanoseconds."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}


def test_a_machine_without_network_trains_what_is_packed(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Corpora of a mirror and of a download, with what it is read with; subwords are not learnt."""
    digests = [load(name).digest for name in ("toy-de", "far-de")]
    result = headbook("corpora", "pack", str(tmp_path / "the pack"), "toy", "far")
    assert result.exit_code == 0 and f"HEADBOOK_DATA='{tmp_path}/the pack/data'" in result.stdout
    shutil.rmtree(machine / "mirror")
    shutil.rmtree(machine / "raw")
    for name in ("DATA", "RUNS", "DOWNLOADS"):
        monkeypatch.setenv(f"HEADBOOK_{name}", str(tmp_path / "the pack" / name.lower()))
    corpus_of.cache_clear()
    monkeypatch.delattr(Subwords, "train")
    assert [load(name).digest for name in ("toy-de", "far-de")] == digests
    assert (trained(run("toy"), Store.default()) / "best.safetensors").is_file()


def test_again_it_copies_what_is_missing_or_damaged(machine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    assert "toy-de: 0.0 MB, 3 of 3 files copied" in headbook("corpora", "pack", str(folder),
                                                             "toy").stdout  # fmt: skip
    before = packed_files(folder)
    again = headbook("corpora", "pack", str(folder), "toy").stdout
    assert again.count("0 of 3 files copied") == 2 and packed_files(folder) == before
    damaged = folder / "data" / "toy-de" / "train.tsv.gz"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-5])
    assert "1 of 3 files copied" in headbook("corpora", "pack", str(folder), "toy").stdout
    assert damaged.read_bytes() == whole and packed_files(folder).keys() == before.keys()


@pytest.mark.parametrize(
    ("fault", "arguments", "said"),
    [
        ("", ("pack", "absent"), "`headbook corpora fetch absent-de`"),
        ("", ("pack", "tou"), "did you mean toy"),
        ("", ("models.toml/pack", "toy"), "name another"),
        ("damaged", ("pack", "toy"), "train.tsv.gz has sha256"),
    ],
)
def test_a_mistake_is_one_line(machine: Path, fault: str, arguments: tuple, said: str) -> None:
    if fault:
        (machine / "mirror" / "toy-de" / "train.tsv.gz").write_bytes(b"other")
    folder, *names = arguments
    result = headbook("corpora", "pack", str(machine / folder), *names)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1 and said in result.stderr
