import re

import pytest

from headbook import paths
from headbook.corpora import registry
from headbook.corpora.readers import READERS
from headbook.corpora.registry import UNKNOWN, CorpusKind, Place
from headbook.types import UserError

PROMISED = """
multi30k-de multi30k-fr multi30k-cs tatoeba-ru tatoeba-de tatoeba-fr bible-ru bible-de bible-fr
msdocs-ru msdocs-de msdocs-fr opensubtitles2018-ru wmt-ru wmt-de wmt-fr newstest2014-ru
newstest2014-de newstest2014-fr ntrex-ru ntrex-de ntrex-fr ud-ewt ud-pud-en ud-pud-de ud-pud-fr
ud-pud-ru ud-pud-pt ud-bosque ntrex-pt wikitext-2 novels mixture-fr controlled-sov controlled-svo
controlled-vso winobias sst
"""
KNOWN = registry.registry()
ENTRY = """
[toy-de]
title = "t"
kind = "parallel"
target = "de"
licence = "l"
pairs = 2
bytes = 3
reader = "lines"
mirror = [{ part = "train.tsv", path = "toy/train.tsv", sha256 = "unknown" }]
public = [{ part = "train.tsv", url = "http://127.0.0.1/all/train.tsv", sha256 = "unknown" }]
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    (tmp_path / "corpora.toml").write_text(ENTRY, encoding="utf-8")
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.delenv("HEADBOOK_DATA", raising=False)
    monkeypatch.setenv("HEADBOOK_DOWNLOADS", str(tmp_path / "raw"))
    return tmp_path


@pytest.mark.parametrize("name", PROMISED.split())
def test_every_promised_corpus_has_an_entry(name):
    assert registry.corpus(name).name == name


@pytest.mark.parametrize("entry", KNOWN.values(), ids=list(KNOWN))
def test_digests_are_whole_or_said_to_be_unknown(entry):
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in entry.mirror)
    for file in entry.public:
        assert re.fullmatch("[0-9a-f]{64}", file.sha256) or (
            file.sha256 == UNKNOWN and "not known" in entry.note
        )
    mirror = {file.part: file.sha256 for file in entry.mirror}
    assert not any(mirror.get(file.part) == file.sha256 for file in entry.public)


@pytest.mark.parametrize("entry", KNOWN.values(), ids=list(KNOWN))
def test_entries_hang_together(entry):
    assert entry.licence and entry.title and entry.pairs > 0
    assert all(file.address.startswith(("http://", "https://")) for file in entry.public)
    named = [*entry.held_out, *entry.tests, *([entry.valid] if entry.valid else [])]
    assert all(KNOWN[name].kind is CorpusKind.TEST for name in named)
    assert all(KNOWN[name].target == entry.target for name in named)
    if entry.kind in (CorpusKind.PARALLEL, CorpusKind.TEST):
        assert entry.reader in READERS
    assert all(KNOWN[name].kind is CorpusKind.PARALLEL for name in entry.of)
    assert all(KNOWN[name].target == entry.target for name in entry.of)
    assert bool(entry.of) == (entry.kind is CorpusKind.MIXTURE)
    assert entry.mirror or entry.public or entry.of or entry.kind is CorpusKind.GENERATED
    assert entry.public or "No public download" in entry.note or not entry.mirror


def test_two_files_never_share_a_place_among_the_downloads():
    places = {}
    for entry in KNOWN.values():
        for file in entry.public:
            place = registry.downloaded(entry, file)
            assert places.setdefault(place, file.address) == file.address


@pytest.mark.parametrize(
    ("asked", "offered"),
    [("tatoeba-it", "tatoeba-fr"), ("multi30-de", "multi30k-de"), ("newstest2014-cs", "2014-ru")],
)
def test_an_unknown_corpus_or_language_names_near_ones(asked, offered):
    with pytest.raises(UserError) as error:
        registry.corpus(asked)
    assert asked in str(error.value) and offered in str(error.value)
    assert "\n" not in str(error.value)


def test_place_follows_the_files(toy, monkeypatch):
    entry = registry.corpus("toy-de")
    assert registry.place(entry) is Place.ABSENT
    downloaded = registry.downloaded(entry, entry.public[0])
    assert downloaded == toy / "raw" / "toy" / "train.tsv"
    downloaded.parent.mkdir(parents=True)
    downloaded.write_text("a\tb\n")
    assert registry.place(entry) is Place.DOWNLOADED
    monkeypatch.setenv("HEADBOOK_DATA", str(toy / "mirror"))
    assert registry.place(entry) is Place.DOWNLOADED
    (toy / "mirror" / "toy").mkdir(parents=True)
    (toy / "mirror" / "toy" / "train.tsv").write_text("a\tb\n")
    (row,) = registry.table()
    assert (row.name, row.languages, row.pairs, row.bytes) == ("toy-de", "en-de", 2, 3)
    assert row.place is Place.MIRROR


def test_generated_corpora_are_always_here():
    assert registry.place(KNOWN["controlled-sov"]) is Place.GENERATED


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        (ENTRY.replace("[toy-de]", "[toy-de"), "not valid TOML"),
        (ENTRY.replace('licence = "l"\n', ""), "licence"),
        (ENTRY.replace('"parallel"', '"paralel"'), "paralel"),
        (ENTRY + "paris = 2\n", "paris"),
    ],
)
def test_a_spoilt_registry_is_one_clear_line(toy, spoilt, said):
    (toy / "other.toml").write_text(spoilt)
    with pytest.raises(UserError, match=said):
        registry.registry(toy / "other.toml")


def test_a_missing_registry_is_named(tmp_path):
    with pytest.raises(UserError, match=r"corpora\.toml is missing"):
        registry.registry(tmp_path / "corpora.toml")
