"""Before a training: what it takes, which models there are, and what another machine needs."""

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest
from refusing import assert_one_line, headbook
from registered import entry, files

from headbook import paths, recipes, tables
from headbook.corpora.readers import load
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.recipes import catalogue
from headbook.released import catalogue as released
from headbook.runs.canonical import plain
from headbook.runs.store import Store
from headbook.text.batches import EOS, collate
from headbook.text.subwords import Subwords
from headbook.training.listing import lines, missing
from headbook.training.models import corpus_of, run
from headbook.training.plan import SHARE, cost, operations
from headbook.training.plan import lines as planned
from headbook.training.train import trained

NAME = "controlled-sov-16"


def test_operations_by_hand() -> None:
    """Six a parameter and token without embeddings, 12 · width a pair of query and key."""
    encoder = 4 * (16 + 4) + (4 * 8 + 8) + (8 * 4 + 4) + 2 * 8
    decoder = 8 * (16 + 4) + (4 * 8 + 8) + (8 * 4 + 4) + 3 * 8
    batch = collate([([5, 6, EOS], [7, EOS]), ([5, EOS], [7, EOS])], [0, 1])
    dense = 5 * encoder + 4 * (decoder + 40)
    pairs = (9 + 4) + (3 + 6) + (3 + 4)
    model = Transformer(TransformerConfig(10, 10, 1, 1, 4, 8, 2))
    assert operations(model, batch) == 6 * dense + 48 * pairs


def test_hours_are_of_a_share_of_the_rate() -> None:
    _, work = cost(run(NAME))
    assert list(planned([NAME], rate=work / 3600e9))[1].endswith(f"{1 / SHARE:.2f} hours")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "runs"))
    return Store(tmp_path / "runs")


def rows(*names: str) -> dict[str, dict[str, str]]:
    """The printed cells of every line, by the model's name."""
    cells = [re.split(" {2,}", line) for line in lines(names)]
    return {row[0]: dict(zip(cells[0], row, strict=True)) for row in cells[1:]}


def test_every_model_of_the_book_is_in_a_line_with_its_published_bleu(store: Store) -> None:
    found = rows()
    assert found.keys() == {x.family for x in catalogue().values()} | released.catalogue().keys()
    published = tables.cells(10, "bleu").set_index(["model", "test", "casing"])
    score = published.loc[("mixture-fr-256", "msdocs-fr", "cased"), "score"]
    assert rows("mixture-fr-256")["mixture-fr-256"]["BLEU"] == f"{float(score):.1f}"
    family = found["tatoeba-de-128-more-updates"]  # of one seed, and the others are not known
    assert int(family["models"]) == 3 and family["BLEU"] != "–" and family["weights"] == "1 here"


def test_what_is_kept_is_here_and_no_longer_missing(store: Store) -> None:
    """The run of that name, as if it had been trained on a corpus that is not here."""
    family, asked = "tatoeba-de-{width}", run("tatoeba-de-64")
    record = store.root / asked.stage.name / "0123456789abcdef" / "run.json"
    record.parent.mkdir(parents=True)
    made = {"stage": plain(asked.stage), "config": plain(asked), "policy": {"device": "cpu"}}
    record.write_text(json.dumps({"ingredients": made}))
    assert rows()[family]["weights"] == "1 here"
    assert rows("tatoeba-de-64")["tatoeba-de-64"]["weights"] == "here"
    left = headbook("models", "--missing", family).stdout.split()
    assert left == missing([family]) == ["tatoeba-de-256"]


def test_a_damaged_record_of_another_run_stops_no_command(store: Store) -> None:
    damaged = store.root / run(NAME).stage.name / "0123456789abcdef" / "run.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text('{"ingredients": ')
    assert headbook("models", NAME).exit_code == headbook("train", NAME, "--plan").exit_code == 0
    assert missing([NAME]) == [NAME]
    assert_one_line(headbook("look", NAME), "trains it")


PAIRS = {
    "train.tsv": "the dog sleeps\tder Hund schläft\na cat sees it\teine Katze sieht es\n" * 4,
    "valid.tsv": "it rains\tes regnet\n",
    "test.tsv": "my sister sings\tmeine Schwester singt\nhe didn't\ter nicht\n",
}
MODEL = """
[{name}]
task = "translation"
corpus = "{name}-de"
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
    """A corpus of a mirror, a download that its test set is taken out of, and a model of each."""
    root = tmp_path / "first"
    (root / "mirror" / "toy-de").mkdir(parents=True)
    (root / "raw" / "far").mkdir(parents=True)
    for name, folder in (("DATA", "mirror"), ("RUNS", "runs"), ("DOWNLOADS", "raw")):
        monkeypatch.setenv(f"HEADBOOK_{name}", str(root / folder))
    monkeypatch.setattr(paths, "DATA", root)
    parts: dict[str, dict] = {"toy": {}, "far": {}}
    for part, text in PAIRS.items():
        packed = gzip.compress(text.encode(), mtime=0)
        (root / "mirror" / "toy-de" / f"{part}.gz").write_bytes(packed)
        (root / "raw" / "far" / f"far.{part}").write_text(text)
        parts["toy"][part] = f"toy-de/{part}.gz", packed
        parts["far"][part] = f"https://nowhere/far.{part}", text.encode()
    toy, far = files("mirror", parts["toy"]), files("public", parts["far"])
    corpora = entry("toy-de", toy), entry("far-de", 'held_out = ["toy-de"]', far)
    (root / "corpora.toml").write_text("".join(corpora))
    (root / "models.toml").write_text("".join(MODEL.format(name=name) for name in parts))
    for cache in (recipes._read, corpus_of):
        cache.cache_clear()
    yield root
    for cache in (recipes._read, corpus_of):
        cache.cache_clear()


def test_a_machine_without_network_trains_what_is_packed(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Corpora of a mirror and of a download, with what it is read with; subwords are not learnt.

    What lies there damaged is packed anew.
    """
    digests = [load(name).digest for name in ("toy-de", "far-de")]
    damaged = tmp_path / "the pack" / "data" / "toy-de" / "train.tsv.gz"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"")
    result = headbook("corpora", "pack", str(tmp_path / "the pack"), "toy", "far")
    assert f"HEADBOOK_DATA='{tmp_path}/the pack/data'" in result.stdout
    shutil.rmtree(machine / "mirror")
    shutil.rmtree(machine / "raw")
    for name in ("DATA", "RUNS", "DOWNLOADS"):
        monkeypatch.setenv(f"HEADBOOK_{name}", str(tmp_path / "the pack" / name.lower()))
    corpus_of.cache_clear()
    monkeypatch.delattr(Subwords, "train")
    assert [load(name).digest for name in ("toy-de", "far-de")] == digests
    assert (trained(run("toy"), Store.default()) / "best.safetensors").is_file()
