import functools
import hashlib
import http.server
import json
import os
import threading

import pytest
from refusing import refused
from registered import entry, files

from headbook import paths
from headbook.text import download, registry
from headbook.text.registry import Place

TEXT = b"one\teins\n"
DIGEST = hashlib.sha256(TEXT).hexdigest()
PARTS = ("train", "valid")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path):
    """A folder and the address under which this machine serves it."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "train.tsv").write_bytes(TEXT)
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def located(tmp_path, monkeypatch, site):
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.delenv("HEADBOOK_DATA", raising=False)
    monkeypatch.setenv("HEADBOOK_DOWNLOADS", str(tmp_path / "raw"))

    def locate(public=DIGEST, url=f"{site[1]}/train.tsv", extra=""):
        mirror = files("mirror", {f"{part}.tsv": (f"toy/{part}.tsv", TEXT) for part in PARTS})
        downloads = files("public", {"train.tsv": (url, TEXT)} if url else {})
        downloads = downloads.replace(f'{DIGEST}"', f'{public}"{extra}')
        (tmp_path / "corpora.toml").write_text(entry("toy-de", mirror, downloads))
        return download.locate("toy-de")

    return locate


def test_a_file_is_fetched_once_and_then_needs_no_network(located, site, tmp_path):
    found = located()
    assert found["train.tsv"].read_bytes() == TEXT
    (site[0] / "train.tsv").unlink()
    assert found == located()
    there = {"train.tsv": tmp_path / "raw/toy/train.tsv"}
    assert found == there
    assert registry.place(registry.corpus("toy-de")) is Place.DOWNLOADED


def test_an_unknown_digest_is_recorded_and_the_next_download_is_held_to_it(
    located, site, tmp_path, capsys
):
    file = located(public="unknown")["train.tsv"]
    lock = tmp_path / "raw" / "toy" / "digests.json"
    assert f"no digest of {site[1]}/train.tsv was known" in capsys.readouterr().err
    assert json.loads(lock.read_text()) == {"train.tsv": DIGEST}
    file.unlink()
    (site[0] / "train.tsv").write_bytes(b"one\tzwei\n")
    with refused(r"digests\.json"):
        located(public="unknown")
    assert json.loads(lock.read_text()) == {"train.tsv": DIGEST}


def test_a_file_changed_after_its_download_is_noticed(located):
    file = located()["train.tsv"]
    file.write_bytes(b"one\tacht\n")
    # The same size: only the time and the bytes tell them apart.
    os.utime(file, ns=(1, 1))
    with refused(f"not {DIGEST}"):
        located()


BY_HAND = ', by_hand = true, note = "needs registration", name = "all.zip"'


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "http://127.0.0.1:9/train.tsv"}, r"could not be fetched.*HEADBOOK_DATA"),
        ({"public": "0" * 64}, "another digest than 000"),
        ({"url": ""}, r"no public download.*HEADBOOK_DATA.*toy/train\.tsv"),
        ({"extra": BY_HAND}, r"all\.zip.*needs registration.*http://127"),
    ],
)
def test_what_cannot_be_fetched_says_how_to_get_it(located, tmp_path, given, said):
    with refused(said):
        located(**given)
    if "extra" in given:
        (tmp_path / "raw" / "toy").mkdir(parents=True)
        (tmp_path / "raw" / "toy" / "all.zip").write_bytes(TEXT)
        assert located(**given)["train.tsv"].name == "all.zip"


def test_the_mirror_comes_before_the_download(located, monkeypatch, tmp_path):
    folder = tmp_path / "mirror" / "toy"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HEADBOOK_DATA", str(folder.parent))
    assert located()["train.tsv"] == tmp_path / "raw/toy/train.tsv"
    there = {f"{part}.tsv": folder / f"{part}.tsv" for part in PARTS}
    for file in there.values():
        file.write_bytes(TEXT)
    assert located() == there
    there["valid.tsv"].write_bytes(b"other")
    with refused(rf"valid\.tsv has sha256 .*, not {DIGEST}"):
        located()
    there["valid.tsv"].unlink()
    with refused(r"valid\.tsv is missing"):
        located()
    monkeypatch.setenv("HEADBOOK_DATA", str(tmp_path / "nowhere"))
    with refused(r"HEADBOOK_DATA names .*nowhere"):
        located()
