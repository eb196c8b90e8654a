import re

import pytest
import registered
from refusing import refused

from headbook import paths
from headbook.text import registry
from headbook.text.registry import UNKNOWN, CorpusKind

KNOWN = registry.registry()
ENTRY = registered.entry("toy-de", registered.files("mirror", {"train.tsv": ("train.tsv", b"")}))


def test_entries_hang_together():
    places: dict = {}
    for entry in KNOWN.values():
        assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in entry.mirror)
        for file in entry.public:
            assert file.address.startswith("https://")
            assert re.fullmatch("[0-9a-f]{64}", file.sha256) or (
                file.sha256 == UNKNOWN and "not known" in entry.note
            )
            # two files never share a place among the downloads
            assert places.setdefault(registry.downloaded(entry, file), file.address) == file.address
        named = [KNOWN[name] for name in (*entry.held_out, *entry.tests, entry.valid) if name]
        assert all(other.kind is CorpusKind.TEST for other in named)
        assert {other.target for other in named} <= {entry.target}


@pytest.mark.parametrize(("asked", "offered"), [("tatoeba-it", "-fr"), ("multi30-de", "30k-de")])
def test_an_unknown_corpus_or_language_names_near_ones(asked, offered):
    with refused(f"{asked}.*{offered}"):
        registry.corpus(asked)


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        (ENTRY.replace("[toy-de]", "[toy-de"), "not valid TOML"),
        (ENTRY.replace('licence = "l"\n', ""), "licence"),
        (ENTRY + "paris = 2\n", "paris"),
        (None, r"corpora\.toml is missing"),
    ],
)
def test_a_spoilt_registry_is_one_clear_line(tmp_path, monkeypatch, spoilt, said):
    if spoilt is not None:
        (tmp_path / "corpora.toml").write_text(spoilt)
    monkeypatch.setattr(paths, "DATA", tmp_path)
    with refused(said):
        registry.registry()
