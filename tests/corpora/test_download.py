import functools
import hashlib
import http.server
import json
import os
import threading

import pytest

from headbook import paths
from headbook.corpora import download
from headbook.corpora.registry import Place
from headbook.types import UserError

TEXT = b"one\teins\n"
DIGEST = hashlib.sha256(TEXT).hexdigest()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path):
    """A folder and the address under which this machine serves it."""
    folder = tmp_path / "site"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def written(tmp_path, monkeypatch, site):
    """Writes a registry of one corpus; gives its name."""
    folder, address = site
    (folder / "train.tsv").write_bytes(TEXT)
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.delenv("HEADBOOK_DATA", raising=False)
    monkeypatch.setenv("HEADBOOK_DOWNLOADS", str(tmp_path / "raw"))

    def write(public=DIGEST, mirror=DIGEST, url=f"{address}/train.tsv", extra=""):
        lines = [
            "[toy-de]",
            *(f'{key} = "x"' for key in ("title", "licence")),
            'kind = "parallel"\ntarget = "de"\npairs = 1\nbytes = 9',
            f'mirror = [{{ part = "train.tsv", path = "toy/train.tsv", sha256 = "{mirror}" }},',
            f'  {{ part = "valid.tsv", path = "toy/valid.tsv", sha256 = "{mirror}" }}]',
        ]
        if url:
            part = f'part = "train.tsv", url = "{url}", sha256 = "{public}"{extra}'
            lines.append(f"public = [{{ {part} }}]")
        (tmp_path / "corpora.toml").write_text("\n".join(lines) + "\n")
        return "toy-de"

    return write


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    folder = tmp_path / "mirror"
    (folder / "toy").mkdir(parents=True)
    for split in ("train", "valid"):
        (folder / "toy" / f"{split}.tsv").write_bytes(TEXT)
    monkeypatch.setenv("HEADBOOK_DATA", str(folder))
    return folder / "toy"


def test_a_file_is_fetched_once_and_then_needs_no_network(written, site, tmp_path):
    name = written()
    assert download.locate(name).files["train.tsv"].read_bytes() == TEXT
    (site[0] / "train.tsv").unlink()
    found = download.Located(Place.DOWNLOADED, {"train.tsv": tmp_path / "raw/toy/train.tsv"})
    assert download.locate(name) == found


def test_a_wrong_digest_is_named_and_nothing_is_kept(written, tmp_path):
    with pytest.raises(UserError, match="another digest than 000"):
        download.locate(written(public="0" * 64))
    assert not (tmp_path / "raw" / "toy" / "train.tsv").exists()


def test_an_unknown_digest_is_recorded_and_the_next_download_is_held_to_it(written, site, tmp_path):
    name = written(public="unknown")
    file = download.locate(name).files["train.tsv"]
    lock = tmp_path / "raw" / "toy" / "digests.json"
    assert json.loads(lock.read_text()) == {"train.tsv": DIGEST}
    file.unlink()
    (site[0] / "train.tsv").write_bytes(b"one\tzwei\n")
    with pytest.raises(UserError, match=r"digests\.json"):
        download.locate(name)
    assert json.loads(lock.read_text()) == {"train.tsv": DIGEST}


def test_a_file_changed_after_its_download_is_noticed(written):
    name = written()
    file = download.locate(name).files["train.tsv"]
    file.write_bytes(b"one\tacht\n")
    # The same size: only the time and the bytes tell them apart.
    os.utime(file, ns=(1, 1))
    with pytest.raises(UserError, match="not " + DIGEST):
        download.locate(name)


@pytest.mark.parametrize("url", ["/no-such-file", "http://127.0.0.1:9/train.tsv"])
def test_an_address_that_gives_nothing_is_one_clear_line(written, site, url):
    name = written(url=url if url.startswith("http") else site[1] + url)
    with pytest.raises(UserError, match=r"could not be fetched.*HEADBOOK_DATA"):
        download.locate(name)


def test_what_cannot_be_fetched_says_how_to_get_it(written, tmp_path):
    name = written(extra=', by_hand = true, note = "needs registration", name = "all.zip"')
    with pytest.raises(UserError, match=r"all\.zip.*needs registration.*http://127"):
        download.locate(name)
    (tmp_path / "raw" / "toy").mkdir(parents=True)
    (tmp_path / "raw" / "toy" / "all.zip").write_bytes(TEXT)
    assert download.locate(name).files["train.tsv"].name == "all.zip"


def test_a_corpus_without_public_download_says_how_to_get_it(written):
    with pytest.raises(UserError, match=r"no public download.*HEADBOOK_DATA.*toy/train\.tsv"):
        download.locate(written(url=""))


def test_the_mirror_comes_before_the_download(written, mirror, site, monkeypatch):
    name = written()
    found = download.locate(name)
    splits = ("train", "valid")
    assert found.place is Place.MIRROR
    assert found.files == {f"{split}.tsv": mirror / f"{split}.tsv" for split in splits}
    with monkeypatch.context() as patch:  # digests are read once a process
        patch.setattr(hashlib, "file_digest", None)
        assert download.locate(name) == found
    for file in mirror.iterdir():
        file.unlink()
    assert download.locate(name).place is Place.DOWNLOADED


def test_a_spoilt_mirror_is_named_and_left_alone(written, mirror, monkeypatch, tmp_path):
    name = written()
    (mirror / "valid.tsv").write_bytes(b"other")
    with pytest.raises(UserError, match=rf"valid\.tsv has sha256 .*, not {DIGEST}"):
        download.locate(name)
    (mirror / "valid.tsv").unlink()
    with pytest.raises(UserError, match=r"valid\.tsv is missing"):
        download.locate(name)
    monkeypatch.setenv("HEADBOOK_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"HEADBOOK_DATA names .*nowhere"):
        download.locate(name)
