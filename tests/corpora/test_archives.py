"""Public downloads: small files in the form in which they are distributed."""

import gzip
import io
import tarfile
import zipfile

import pytest
from refusing import refused
from registered import lines

from headbook.corpora.pairs import Reason
from headbook.corpora.readers import load
from headbook.text import registry


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def put(name: str, contents: dict[str, bytes]) -> None:
    """Places small files of a corpus' public form where its downloads are kept."""
    entry = registry.corpus(name)
    for file in entry.public:
        path = registry.downloaded(entry, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[file.part])


@pytest.fixture(autouse=True)
def downloads(tmp_path, monkeypatch):
    """Nothing but the sets whose sentences are held out of every corpus."""
    monkeypatch.delenv("HEADBOOK_DATA", raising=False)
    monkeypatch.setenv("HEADBOOK_DOWNLOADS", str(tmp_path / "raw"))
    for language in ("ru", "de", "fr"):
        for name, split, line in (("newstest2014", "newstest2014", "Seen in the news."),
                                  ("newstest2013", "newstest2013", "Older news."),
                                  ("ntrex", "test", "Seen in NTREX.")):  # fmt: skip
            sides = {f"{split}.en": lines(line), f"{split}.{language}": lines(f"Ü {line}")}
            put(f"{name}-{language}", sides)


def test_tatoeba_is_split_and_held_out_sentences_leave_it():
    rows = [f"Sentence {index}.\tSatz {index}.\tCC-BY 2.0" for index in range(4_100)]
    rows += ["seen in the news\tGesehen.\tCC-BY", "no tab"]
    put("tatoeba-de", {"table": zipped({"_about.txt": b"about\n", "deu.txt": lines(*rows)})})
    corpus = load("tatoeba-de")
    sizes = {name: len(pairs) for name, pairs in corpus.tests.items()}
    assert (len(corpus.valid), sizes) == (2_000, {"test": 2_000})
    assert len(corpus.train) + corpus.dropped[Reason.IN_EVALUATION] in (100, 101)
    assert "seen in the news" not in corpus.train.source
    assert corpus.train.target[0].startswith("Satz ") and corpus.dropped[Reason.NOT_A_PAIR] == 1


def sides(name: str, language: str, english: bytes, other: bytes) -> dict[str, bytes]:
    return {f"{name}.en": english, f"{name}.{language}": other}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (zipped({"b.de-en.en": b"a\n"}), r"de-en\.txt\.zip holds 0 files ending in \.de"),
        (zipped(sides("b.de-en", "de", b"a\nb\n", b"a\n")), r"\.de has 1 lines and .*more"),
        (b"<html>gone</html>", r"de-en\.txt\.zip: damaged file"),
    ],
)
def test_a_spoilt_archive_is_one_clear_line(content, said):
    put("bible-de", {"moses": content})
    with refused(said):
        load("bible-de")


def subtitles(count: int) -> dict[str, bytes]:
    """As OPUS has them: the alignment has empty links which the Moses files leave out."""
    rows, links = range(1, count + 1), []
    for row in rows:
        stated = ['overlap="0.95"', 'overlap="0.9"', 'overlap="0.899"', ""][row % 4]
        links.append(f'<link xtargets="{row};{row} {row + 1}" {stated} />')
        links.append(f'<link xtargets=";{row}" />')
    xml = lines(
        '<cesAlign><linkGrp fromDoc="en/a.gz" toDoc="ru/b.gz">', *links, "</linkGrp></cesAlign>"
    )
    members = {
        "README": b"read me",
        "OpenSubtitles.en-ru.en": lines(*(f"Line {row}." for row in rows)),
        "OpenSubtitles.en-ru.ru": lines(*(f"Строка {row}." for row in rows)),
        "OpenSubtitles.en-ru.ids": lines(*(f"en/a.gz\tru/b.gz\t{row}\t{row} {row + 1}"
                                           for row in rows)),
    }  # fmt: skip
    return {"moses": zipped(members), "alignment": gzip.compress(xml)}


def test_subtitles_keep_pairs_whose_times_overlap_enough():
    put("opensubtitles2018-ru", subtitles(8_016))
    corpus = load("opensubtitles2018-ru")
    parts = (corpus.train, corpus.valid, corpus.tests["test"])
    kept = {line for part in parts for line in part.source}
    assert kept == {f"Line {row}." for row in range(1, 8_017) if row % 4 in (0, 1)}
    assert corpus.dropped[Reason.LOW_OVERLAP] == 4_008
    assert all(s.split()[1] == t.split()[1] for s, t in corpus.train)


def test_wmt_joins_its_archives_and_is_evaluated_on_newstest():
    commentary = sides("nc-v13/news-commentary-v13.de-en", "de", b"opinion\n", b"nc\n")
    europarl = sides("training/ep.en_de", "de", b"speech\n\n", b"ep\nep\n")  # as Yandex writes it
    crawl, web = {}, ["web page", "SEEN in the news", "older news"]
    for language in ("de", "fr"):  # one archive of several pairs
        other = lines(*(f"{language} {line}" for line in web))
        crawl |= sides(f"commoncrawl.{language}-en", language, lines(*web), other)
    parts = {"news-commentary": commentary, "commoncrawl": crawl, "europarl": europarl}
    put("wmt-de", {part: tarred(members) for part, members in parts.items()})
    corpus = load("wmt-de")
    assert set(corpus.train) == {("opinion", "nc"), ("web page", "de web page"), ("speech", "ep")}
    assert list(corpus.valid.source) == ["Older news."]
    assert corpus.tests["newstest2014"].source == ("Seen in the news.",)
    assert +corpus.dropped == {Reason.IN_EVALUATION: 2, Reason.EMPTY_SIDE: 1}
