"""`headbook pack`: a machine without network and spaCy goes on with what it collects."""

import gzip
import hashlib
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import spacy
from headbook.chapters import config
from headbook.chapters.profile import PROFILES, Profile
from spacy.language import Language
from spacy.tokens import Doc
from typer.testing import CliRunner, Result

from headbook import paths
from headbook.artefacts import texts
from headbook.artefacts.model import ModelRun, Size, corpus_of, trained
from headbook.artefacts.texts import AUTO, HELD_OUT, held_out, treebank
from headbook.cli import app
from headbook.corpora.readers import load
from headbook.corpora.subwords import Subwords
from headbook.planning import pack
from headbook.runs.store import Store
from headbook.syntax import parse as parsing

pytestmark = pytest.mark.slow

HEAD = """
[{name}]
title = "t"
kind = "{kind}"
target = "{target}"
licence = "l"
pairs = 2
bytes = 3
"""
FILE = '{{ part = "{part}", {key} = "{address}", sha256 = "{digest}" }}'
CONLLU = """# text = Birds sing
1\tBirds\tbird\tNOUN\t_\t_\t2\tnsubj\t_\t_
2\tsing\tsing\tVERB\t_\t_\t0\troot\t_\t_

"""
PAIRS = {
    "train.tsv": "the dog sleeps\tder Hund schläft\na cat sees it\teine Katze sieht es\n",
    "valid.tsv": "it rains\tes regnet\n",
    "test.tsv": "my sister sings\tmeine Schwester singt\nhe didn't\ter nicht\n",
}


@Language.component("headbook_test_pack")
def all_on_the_last(doc: Doc) -> Doc:
    for token in doc:
        token.head, token.dep_ = doc[len(doc) - 1], "dep"
    return doc


class Machine:
    """A registry, a mirror of compressed files, downloads and a run store in one folder."""

    def __init__(self, root: Path):
        self.root, self.mirror = root, root / "mirror"
        root.mkdir()
        (root / "corpora.toml").touch()

    def enter(self, name: str, kind: str, parts: dict[str, str], target: str = "de") -> None:
        """A corpus whose compressed files are in the mirror."""
        rows = []
        for part, text in parts.items():
            address = f"{name}/{part}.gz"
            file = self.mirror / address
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(gzip.compress(text.encode(), mtime=0))
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            rows.append(FILE.format(part=part, key="path", address=address, digest=digest))
        self.add(HEAD.format(name=name, kind=kind, target=target), "mirror", rows)

    def add(self, head: str, key: str, rows: list[str]) -> None:
        """One more entry of the registry, which is read once and so has to be complete by then."""
        with (self.root / "corpora.toml").open("a") as registry:
            registry.write(f"{head}{key} = [{', '.join(rows)}]\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Profile `toy`: a corpus and a treebank of the mirror, one generated, one that is absent."""
    made = Machine(tmp_path / "first")
    smoke = PROFILES["smoke"]  # names models of the catalogue in the data folder left below
    for name, folder in (("DATA", "mirror"), ("RUNS", "runs"), ("DOWNLOADS", "raw")):
        monkeypatch.setenv(f"HEADBOOK_{name}", str(made.root / folder))
    monkeypatch.setattr(paths, "DATA", made.root)
    made.enter("toy-de", "parallel", PAIRS)
    made.enter("far-de", "parallel", PAIRS)
    shutil.rmtree(made.mirror / "far-de")
    made.enter("toy-bank", "treebank", {"test.conllu": CONLLU}, target="en")
    made.add(HEAD.format(name="controlled-sov", kind="generated", target="xx"),
             "mirror", [])  # fmt: skip
    _pipeline(made.mirror / texts.MIRRORED)
    monkeypatch.setattr(texts, "INSTALLED", "en_no_such_pipeline")
    shape, training = Size(1, 16, 32, 2), smoke.models[0].training
    models = [ModelRun(name, shape, 60, 0.1, training) for name in ("toy-de", "controlled-sov")]
    wider = ModelRun("toy-de", Size(1, 32, 32, 2), 60, 0.1, training)
    away = ModelRun("far-de", shape, 60, 0.1, training)
    toy = Profile((*models, away), smoke.pruning, (HELD_OUT, "toy-bank"),
                  emerging=(wider,))  # fmt: skip
    monkeypatch.setattr(config, "PROFILES", {"toy": toy})
    corpus_of.cache_clear()
    yield made
    corpus_of.cache_clear()


def _pipeline(folder: Path) -> None:
    language = spacy.blank("en")
    language.add_pipe("headbook_test_pack")
    language.meta["name"], language.meta["version"] = "last", "1.0"
    folder.parent.mkdir(parents=True)
    language.to_disk(folder)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Goes to a machine that has the packed folder alone: no spaCy, no mirror, no network."""

    def go(folder: Path) -> None:
        for name in ("DATA", "RUNS", "DOWNLOADS"):
            monkeypatch.setenv(f"HEADBOOK_{name}", str(folder / name.lower()))
        monkeypatch.setattr(texts, "find_spec", lambda name: None)
        monkeypatch.delattr(parsing, "parse")

    return go


def headbook(folder: Path, profile: str = "toy") -> Result:
    return CliRunner().invoke(app, ["pack", "--profile", profile, str(folder)])


def assert_one_line(result: Result, *said: str) -> None:
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("headbook: ")
    for each in said:
        assert each in result.stderr


def packed_files(folder: Path) -> dict[str, int]:
    """Every packed file and when it was written, in nanoseconds."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}


def test_a_machine_without_spacy_reads_the_same_corpus_and_parses(
    machine: Machine, tmp_path: Path, elsewhere: Callable[[Path], None]
):
    corpus = load("toy-de")
    text = held_out(corpus, None, AUTO, Store.default())
    bank = treebank("toy-bank", None)
    folder = tmp_path / "the pack"
    assert headbook(folder).exit_code == 0
    shutil.rmtree(machine.mirror)
    shutil.rmtree(machine.root / "runs")
    elsewhere(folder)
    assert load("toy-de").digest == corpus.digest
    assert held_out(load("toy-de"), None, AUTO, Store.default()) == text
    assert text.parser.startswith("en_last 1.0")
    assert treebank("toy-bank", None) == bank


def test_a_model_is_trained_there_with_the_packed_subwords(
    machine: Machine,
    tmp_path: Path,
    elsewhere: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
):
    (run, *_) = (each for each in config.Config("toy").models() if each.corpus == "toy-de")
    here = trained(run, Store(tmp_path / "anew"))
    assert headbook(tmp_path / "pack").exit_code == 0
    elsewhere(tmp_path / "pack")
    corpus_of.cache_clear()
    monkeypatch.delattr(Subwords, "train")
    there = trained(run, Store.default())
    assert there.encode(there.corpus.valid) == here.encode(here.corpus.valid)
    pd.testing.assert_series_equal(
        there.curve["valid_loss_nats"], here.curve["valid_loss_nats"], check_exact=True
    )


def test_subwords_that_are_too_large_are_left_out_and_said_to_be(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pack, "LARGEST", 1000)
    lines = headbook(tmp_path / "pack").stdout.splitlines()
    (line,) = (each for each in lines if each.startswith("toy-de, 60 subwords"))
    assert "left out" in line and "computed there" in line
    assert not list((tmp_path / "pack").glob("runs/tokenised/*"))


def test_it_says_what_it_packs_and_how_to_go_on(machine: Machine, tmp_path: Path):
    folder = tmp_path / "the pack"
    lines = headbook(folder).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[:7]] == [
        "controlled-sov: generated there, no file",
        "far-de: left out, it is not here: set HEADBOOK_DATA to a folder that has it, or "
        "`headbook corpora fetch far-de`, and pack again",
        "toy-de", "toy-bank", "toy-de, parses", "toy-de, 60 subwords", "in all",
    ]  # fmt: skip
    assert all("0.0 MB" in line for line in lines[2:7])
    assert [line.rpartition("  ")[2] for line in lines[2:6]] == [
        "copied: 3", "copied: 1", "copied: 2", "copied: 4"
    ]  # fmt: skip
    found = packed_files(folder)
    assert sorted(name for name in found if not name.startswith("runs")) == [
        "data/toy-bank/test.conllu.gz", *(f"data/toy-de/{part}.gz" for part in sorted(PAIRS))
    ]  # fmt: skip
    kept = [Path(name).name for name in found if name.startswith("runs/parses/")]
    assert kept == ["run.json", "trees.json"]
    exported = [line for line in lines if line.startswith("export ")]
    assert shlex.split(" ".join(exported)) == [
        "export", "PYTHONPATH=src:build/packages", "export",
        *(f"HEADBOOK_{name.upper()}={folder / name}" for name in ("data", "downloads", "runs")),
    ]  # fmt: skip
    assert [line for line in lines if "-m headbook" in line] == [
        "python3 -m headbook plan --profile toy",
        "python3 -m headbook train --profile toy --minutes 30",
        "python3 -m headbook publish --profile toy --minutes 30",
    ]


def test_again_it_copies_nothing(machine: Machine, tmp_path: Path):
    first = headbook(tmp_path / "pack").stdout
    before = packed_files(tmp_path / "pack")
    again = headbook(tmp_path / "pack").stdout
    assert packed_files(tmp_path / "pack") == before
    assert first.count("copied: ") == again.count("there already") == 4
    assert "copied: " not in again


@pytest.mark.parametrize("fault", [b"", b"other bytes", "truncated"], ids=str)
def test_a_planted_fault_is_mended(machine: Machine, tmp_path: Path, fault: bytes | str):
    assert headbook(tmp_path / "pack").exit_code == 0
    before = packed_files(tmp_path / "pack")
    (trees,) = (tmp_path / "pack").glob("runs/parses/*/trees.json")
    for file in (tmp_path / "pack" / "data" / "toy-de" / "train.tsv.gz", trees):
        whole = file.read_bytes()
        file.write_bytes(whole[:-5] if isinstance(fault, str) else fault)
        again = headbook(tmp_path / "pack").stdout
        assert file.read_bytes() == whole
        assert again.count("copied: 1") == 1 and again.count("there already") == 3
    assert packed_files(tmp_path / "pack").keys() == before.keys()


def test_a_pack_that_was_killed_goes_on(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Killed while the second file is copied: the first is not copied again."""
    whole, copies = shutil.copyfile, []

    def cut(source: Path, to: Path) -> None:
        copies.append(to)
        to.write_bytes(source.read_bytes()[:3])
        if len(copies) == 2:
            raise KeyboardInterrupt
        whole(source, to)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", cut)
        assert headbook(tmp_path / "pack").exit_code != 0
    assert [path for path in packed_files(tmp_path / "pack") if path.endswith(".partial")]
    first, after = copies[0].with_suffix(""), headbook(tmp_path / "pack")
    assert after.exit_code == 0 and "copied: 2" in after.stdout and first.is_file()
    assert not [path for path in packed_files(tmp_path / "pack") if path.endswith(".partial")]


def test_a_corpus_that_is_too_large_is_refused_before_anything_is_copied(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    size = sum(file.stat().st_size for file in (machine.mirror / "toy-de").iterdir())
    monkeypatch.setattr(pack, "LARGEST", size - 1)
    assert_one_line(headbook(tmp_path / "pack"), "toy-de is 0.0 MB packed", "data/corpora.toml")
    assert not (tmp_path / "pack").exists()
    monkeypatch.setattr(pack, "LARGEST", size)
    assert headbook(tmp_path / "pack").exit_code == 0


def test_a_damaged_corpus_is_not_packed(machine: Machine, tmp_path: Path):
    (machine.mirror / "toy-de" / "train.tsv.gz").write_bytes(b"other")
    assert_one_line(headbook(tmp_path / "pack"), "train.tsv.gz has sha256", "into the mirror again")
    assert not (tmp_path / "pack").exists()


def test_a_download_is_packed_as_one_with_what_it_is_read_with(
    machine: Machine, tmp_path: Path, elsewhere: Callable[[Path], None]
):
    """A corpus without a mirror, from which the sentences of a test set are removed."""
    machine.enter("set-de", "test", {"test.tsv": PAIRS["test.tsv"]})
    digests = {}
    for part, text in PAIRS.items():
        file = machine.root / "raw" / "far" / f"far.{part}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        digests[part] = hashlib.sha256(text.encode()).hexdigest()
    rows = [
        FILE.format(part=part, key="url", address=f"https://nowhere/far.{part}", digest=digest)
        for part, digest in digests.items()
    ]
    head = HEAD.format(name="far-fr", kind="parallel", target="fr")
    machine.add(f'{head}held_out = ["set-de"]\n', "public", rows)
    run = config.PROFILES["toy"].models[0]
    far = Profile((ModelRun("far-fr", run.size, 60, 0.1, run.training),),
                  PROFILES["smoke"].pruning)  # fmt: skip
    config.PROFILES["toy"] = far
    corpus, folder = load("far-fr"), tmp_path / "pack"
    assert headbook(folder).exit_code == 0
    assert (folder / "data" / "set-de" / "test.tsv.gz").is_file()
    shutil.rmtree(machine.root / "raw")
    elsewhere(folder)
    assert load("far-fr").digest == corpus.digest


def test_what_studies_read_besides_the_models_corpora_comes_along():
    """Treebanks, the text of a language model, and the text of another kind heads are scored on."""
    names = pack.corpora_of(config.Config("laptop"))
    assert {"tatoeba-fr", "multi30k-fr", "ud-ewt", "ud-pud-en", "wikitext-2"} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--profile", "ful", "pack"), "known: "),
        (("--profile", "toy", "file"), "file"),
        (("--profile", "toy", "file/pack"), "name another folder"),
    ],
)
def test_a_mistake_is_one_line(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple, said: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    result = CliRunner().invoke(app, ["pack", *arguments])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1 and said in result.stderr


def test_a_pack_in_the_repository_is_named_from_there():
    said = pack.commands("--profile full", paths.REPOSITORY / "build" / "my pack")
    assert "HEADBOOK_DATA='build/my pack/data' " in said
    assert "HEADBOOK_RUNS='build/my pack/runs'" in said


def test_it_explains_itself():
    result = CliRunner().invoke(app, ["pack", "--help"])
    assert result.exit_code == 0 and "--profile" in result.stdout and "folder" in result.stdout
