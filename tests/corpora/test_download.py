import functools
import hashlib
import http.server
import json
import os
import threading

import pytest

from headbook import paths
from headbook.corpora import download
from headbook.corpora.download import State
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
            *(f'{key} = "x"' for key in ("title", "licence", "reader")),
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


def test_fetch_brings_the_file_and_a_second_fetch_needs_no_network(written, site, tmp_path):
    name = written()
    assert download.fetch(name)["train.tsv"].read_bytes() == TEXT
    (site[0] / "train.tsv").unlink()
    assert download.fetch(name) == {"train.tsv": tmp_path / "raw" / "toy" / "train.tsv"}


def test_a_wrong_digest_is_named_and_the_file_set_aside(written, tmp_path):
    name = written(public="0" * 64)
    with pytest.raises(UserError) as error:
        download.fetch(name)
    assert DIGEST in str(error.value) and "0" * 64 in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "raw" / "toy" / "train.tsv").exists()
    assert (tmp_path / "raw" / "toy" / "train.tsv.wrong").read_bytes() == TEXT


def test_an_unknown_digest_is_recorded_and_the_next_download_is_held_to_it(written, site, tmp_path):
    name = written(public="unknown")
    file = download.fetch(name)["train.tsv"]
    lock = tmp_path / "raw" / "toy" / "digests.json"
    assert json.loads(lock.read_text()) == {"train.tsv": DIGEST}
    file.unlink()
    (site[0] / "train.tsv").write_bytes(b"one\tzwei\n")
    with pytest.raises(UserError, match=r"digests\.json"):
        download.fetch(name)
    assert json.loads(lock.read_text()) == {"train.tsv": DIGEST}


def test_a_file_changed_after_its_download_is_noticed(written):
    name = written()
    file = download.fetch(name)["train.tsv"]
    file.write_bytes(b"one\tacht\n")
    # The same size: only the time and the bytes tell them apart.
    os.utime(file, ns=(1, 1))
    with pytest.raises(UserError, match="not " + DIGEST):
        download.locate(name)


@pytest.mark.parametrize("url", ["/no-such-file", "http://127.0.0.1:9/train.tsv"])
def test_an_address_that_gives_nothing_is_one_clear_line(written, site, url):
    name = written(url=url if url.startswith("http") else site[1] + url)
    with pytest.raises(UserError, match=r"could not be fetched.*HEADBOOK_DATA"):
        download.fetch(name)


def test_a_corpus_without_public_download_says_how_to_get_it(written):
    name = written(url="")
    with pytest.raises(UserError, match=r"no public download.*HEADBOOK_DATA.*toy/train\.tsv"):
        download.locate(name)


def test_a_file_to_be_fetched_by_hand_names_address_and_place(written, tmp_path):
    name = written(extra=', access = "by hand", note = "needs registration", name = "all.zip"')
    with pytest.raises(UserError, match=r"all\.zip.*needs registration.*http://127"):
        download.fetch(name)
    (tmp_path / "raw" / "toy").mkdir(parents=True)
    (tmp_path / "raw" / "toy" / "all.zip").write_bytes(TEXT)
    assert download.fetch(name)["train.tsv"].name == "all.zip"


def test_a_generated_corpus_cannot_be_fetched():
    with pytest.raises(UserError, match="generated"):
        download.fetch("controlled-sov")


def test_the_mirror_comes_before_the_download(written, mirror, site):
    (site[0] / "train.tsv").unlink()
    located = download.locate(written())
    assert located.place is Place.MIRROR
    assert located.files == {
        f"{split}.tsv": mirror / f"{split}.tsv" for split in ("train", "valid")
    }


def test_a_mirror_without_the_corpus_is_passed_over(written, mirror):
    for file in mirror.iterdir():
        file.unlink()
    assert download.locate(written()).place is Place.DOWNLOADED


def test_a_mirror_with_half_the_corpus_names_the_missing_file(written, mirror):
    (mirror / "valid.tsv").unlink()
    with pytest.raises(UserError, match=r"valid\.tsv is missing"):
        download.locate(written())


def test_a_wrong_digest_in_the_mirror_is_named_and_the_file_left_alone(written, mirror):
    (mirror / "valid.tsv").write_bytes(b"other")
    with pytest.raises(UserError, match=rf"valid\.tsv has sha256 .*, not {DIGEST}"):
        download.locate(written())
    assert (mirror / "valid.tsv").exists()


def test_a_mirror_that_is_no_folder_is_named(written, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADBOOK_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"HEADBOOK_DATA names .*nowhere"):
        download.locate(written())


def test_digests_are_read_once_a_process(written, mirror, monkeypatch):
    name = written()
    download.locate(name)
    monkeypatch.setattr(hashlib, "file_digest", None)
    assert download.locate(name).place is Place.MIRROR


def test_check_tells_right_missing_and_wrong_files_apart(written, mirror):
    name = written()
    download.fetch(name)
    (mirror / "train.tsv").write_bytes(b"other")
    (mirror / "valid.tsv").unlink()
    rows = [(row.file.name, row.place, row.state) for row in download.check()]
    assert rows == [
        ("train.tsv", Place.MIRROR, State.WRONG),
        ("valid.tsv", Place.MIRROR, State.MISSING),
        ("train.tsv", Place.DOWNLOADED, State.OK),
    ]


def test_check_is_empty_where_nothing_was_fetched(written):
    written()
    assert download.check() == []
