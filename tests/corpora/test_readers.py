import functools
import gzip
import hashlib
import io
import tarfile
import zipfile

import pytest

from headbook import paths
from headbook.corpora import batches, controlled, download, readers, registry
from headbook.corpora.pairs import Pairs, paired
from headbook.corpora.readers import load
from headbook.corpora.report import Reason
from headbook.types import UserError

WORDS = ["one", "two", "three", "four", "five", "six"]
EINS = ["eins", "zwei", "drei", "vier", "fünf", "sechs"]


def lines(*rows: str) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


@pytest.fixture
def folder(tmp_path):
    """A user's own corpus, whole and right."""
    whole = {"train": slice(0, 4), "valid": slice(4, 5), "test": slice(5, 6)}
    for split, part in whole.items():
        (tmp_path / f"{split}.en").write_bytes(lines(*WORDS[part]))
        (tmp_path / f"{split}.de.gz").write_bytes(gzip.compress(lines(*EINS[part])))
    return tmp_path


@pytest.fixture
def downloads(tmp_path, monkeypatch):
    """The folder of downloads, with a registry that holds the real entries."""
    monkeypatch.delenv("HEADBOOK_DATA", raising=False)
    monkeypatch.setenv("HEADBOOK_DOWNLOADS", str(tmp_path / "raw"))
    return tmp_path / "raw"


def put(name: str, contents: dict[str, bytes]) -> None:
    """Places small files of a corpus' public form where its downloads are kept."""
    entry = registry.corpus(name)
    for file in entry.public:
        path = registry.downloaded(entry, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[file.part])


def put_test_set(name: str, split: str, sources: list[str]) -> None:
    target = registry.corpus(name).target
    other = lines(*(f"Ü {line}" for line in sources))
    put(name, {f"{split}.en": lines(*sources), f"{split}.{target}": other})


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


# A user's own folder, and what can be wrong with it.


def test_a_folder_of_plain_and_packed_files_is_a_corpus(folder):
    corpus = load(str(folder))
    assert corpus.target_language == "de"
    assert list(corpus.train) == list(zip(WORDS[:4], EINS[:4], strict=True))
    assert list(corpus.valid) == [("five", "fünf")]
    assert {name: list(pairs) for name, pairs in corpus.tests.items()} == {
        "test": [("six", "sechs")]
    }
    assert corpus.report.lines() == []


def test_the_digest_is_of_the_pairs_and_not_of_the_form(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("tables")
    for split, part in {"train": (0, 4), "valid": (4, 5), "test": (5, 6)}.items():
        rows = (f"{WORDS[index]}\t{EINS[index]}\tnote" for index in range(*part))
        (other / f"{split}.tsv").write_bytes(lines(*rows))
    table = load(str(other))
    assert table.target_language == "und"
    assert table.digest == load(str(folder)).digest
    (folder / "valid.en").write_bytes(lines("Five"))
    assert table.digest != load(str(folder)).digest


def test_limit_keeps_the_first_training_pairs_and_changes_the_digest(folder):
    whole, part = load(str(folder)), load(str(folder), limit=2)
    assert part.train == whole.train.first(2) and len(part.train) == 2
    assert (part.valid, part.tests) == (whole.valid, whole.tests)
    assert part.digest != whole.digest
    assert load(str(folder), limit=99).digest == whole.digest


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_leaves_nothing_is_refused(folder, limit):
    with pytest.raises(UserError, match=f"limit {limit}"):
        load(str(folder), limit=limit)


def test_a_missing_side_is_named(folder):
    (folder / "valid.de.gz").unlink()
    with pytest.raises(UserError, match=r"valid\.de is missing.*valid\.tsv"):
        load(str(folder))


def test_a_folder_without_target_side_or_with_two_is_refused(folder):
    (folder / "train.fr").write_bytes(lines(*EINS[:4]))
    with pytest.raises(UserError, match="de, fr"):
        load(str(folder))
    (folder / "train.fr").unlink()
    (folder / "train.de.gz").unlink()
    with pytest.raises(UserError, match=r"no train\.xx"):
        load(str(folder))


def test_every_test_set_of_a_folder_needs_both_sides(folder):
    (folder / "test_2.en").write_bytes(lines("seven"))
    (folder / "notes.txt").write_bytes(b"not part of the corpus")
    with pytest.raises(UserError, match=r"test_2\.de is missing"):
        load(str(folder))
    (folder / "test_2.de").write_bytes(lines("sieben"))
    assert list(load(str(folder)).tests) == ["test", "test_2"]


@pytest.mark.parametrize("name", ["{0}/nowhere", "./nowhere", "nowhere/", "~/nowhere"])
def test_a_path_that_does_not_exist_is_no_misspelt_name(folder, name):
    with pytest.raises(UserError, match=r"^/.*nowhere does not exist: give the path") as error:
        load(name.format(folder))
    assert "~" not in str(error.value) and "did you mean" not in str(error.value)


def test_a_file_is_no_corpus(folder):
    with pytest.raises(UserError, match=r"train\.en is a file, not a folder"):
        load(str(folder / "train.en"))


def test_a_tilde_is_the_home_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load(f"~/{folder.name}").digest == load(str(folder)).digest


@pytest.mark.parametrize("name", ["train.ru", "valid.de", "test.en"])
def test_a_folder_in_place_of_a_file_is_named(folder, name):
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    with pytest.raises(UserError, match=f"{name} is a folder"):
        load(str(folder))


def test_a_file_that_stands_there_plain_and_packed_is_refused(folder):
    (folder / "train.en.gz").write_bytes(gzip.compress(lines(*WORDS[:4])))
    with pytest.raises(UserError, match=r"train\.en and train\.en\.gz are both there"):
        load(str(folder))


def test_fields_between_commas_are_refused(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.csv").write_bytes(lines("one,eins"))
    with pytest.raises(UserError, match=r"holds train\.csv.* save it as train\.tsv"):
        load(str(tmp_path))


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_an_empty_evaluation_set_is_named_before_any_training(folder, split, content):
    (folder / f"{split}.en").write_bytes(content)
    (folder / f"{split}.de.gz").write_bytes(gzip.compress(content))
    why = "2 of 2 pairs: one side is empty" if content else "the file is empty"
    with pytest.raises(UserError, match=rf"/{split}\.en: no pair is left \(.*{why}"):
        load(str(folder), limit=1)


def test_a_byte_order_mark_is_no_text(folder):
    plain = load(str(folder))
    for path in folder.iterdir():
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as stream:
            content = stream.read()
        with opened(path, "wb") as stream:
            stream.write(b"\xef\xbb\xbf" + content)
    assert load(str(folder)).digest == plain.digest
    (folder / "train.en").write_bytes(lines(*WORDS[:3], "\ufefffour"))
    assert load(str(folder)).train.source[3] == "\ufefffour"  # the mark of a file is its first


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("utf-16", "train.en: UTF-16"), ("utf-16-be", "line 1: a NUL byte"), ("utf-16-le", "a NUL")],
)
def test_utf16_is_refused(folder, encoding, said):
    (folder / "train.en").write_bytes("one\ntwo\nthree\nfour\n".encode(encoding))
    with pytest.raises(UserError, match=said):
        load(str(folder))


def test_a_nul_byte_names_its_line(folder):
    (folder / "train.en").write_bytes(b"one\ntwo\nth\0ree\nfour\n")
    with pytest.raises(UserError, match=r"train\.en, line 3: a NUL byte"):
        load(str(folder))


def test_invalid_utf8_names_file_and_line(folder):
    (folder / "train.en").write_bytes(b"one\ntwo\nna\xefve\nfour\n")
    with pytest.raises(UserError, match=r"train\.en, line 3: not valid UTF-8 at byte 3"):
        load(str(folder))


def test_sides_of_unequal_length_name_both_counts(folder):
    (folder / "train.en").write_bytes(lines(*WORDS[:4], "five", "six"))
    with pytest.raises(UserError, match=r"train\.en has 6 lines but .*train\.de\.gz has 4"):
        load(str(folder))
    (folder / "train.en").write_bytes(lines(*WORDS[:3]))
    with pytest.raises(UserError, match=r"train\.en has 3 lines but .*train\.de\.gz has 4"):
        load(str(folder))


def test_a_damaged_gzip_file_is_named(folder):
    whole = (folder / "train.de.gz").read_bytes()
    (folder / "train.de.gz").write_bytes(whole[:-9])
    with pytest.raises(UserError, match=r"train\.de\.gz, after line \d: damaged"):
        load(str(folder))
    (folder / "train.de.gz").write_bytes(b"not gzip at all")
    with pytest.raises(UserError, match=r"train\.de\.gz, after line \d: damaged"):
        load(str(folder))


def test_empty_lines_and_long_lines_are_dropped_on_both_sides_and_counted(folder):
    long = " ".join(["very"] * 10_000)
    (folder / "train.en").write_bytes(lines("one", "", long, " ".join(["word"] * 200)))
    (folder / "train.de.gz").write_bytes(gzip.compress(lines("eins", "zwei", "drei", "vier")))
    (folder / "test.en").write_bytes(lines("six", "seven"))
    (folder / "test.de.gz").write_bytes(gzip.compress(lines("sechs", "\u00a0 ")))
    corpus = load(str(folder))
    assert list(corpus.train.target) == ["eins", "vier"]
    assert corpus.report.dropped == {
        ("train", Reason.EMPTY_SIDE): 1,
        ("train", Reason.OVER_LONG): 1,
        ("test", Reason.EMPTY_SIDE): 1,
    }
    assert corpus.report.read == {"train": 4, "valid": 1, "test": 2}
    assert "train: dropped 1 of 4 pairs: one side is empty" in corpus.report.lines()


def test_rows_without_a_tab_are_dropped_and_counted(folder):
    (folder / "train.tsv").write_bytes(lines("one\teins", "two zwei", "three\tdrei"))
    corpus = load(str(folder))
    assert list(corpus.train.source) == ["one", "three"]
    assert corpus.report.dropped == {("train", Reason.NOT_A_PAIR): 1}
    assert corpus.report.read["train"] == 3


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_a_training_split_with_nothing_left_is_one_clear_line(folder, content):
    (folder / "train.en").write_bytes(content)
    (folder / "train.de.gz").write_bytes(gzip.compress(content))
    with pytest.raises(UserError, match="no training pair is left"):
        load(str(folder))


def test_a_corpus_smaller_than_a_batch_is_one_batch_with_every_pair(folder):
    corpus = load(str(folder))
    encoded = [([2, 1], [3, 1])] * len(corpus.train)
    assert [sorted(rows) for rows in batches.epoch(encoded, 100_000, seed=0, number=0)] == [
        [0, 1, 2, 3]
    ]


def test_only_a_newline_ends_a_line(folder):
    (folder / "train.en").write_bytes("o\u2028ne\r\ntw\x0bo\nthree\nfour".encode())
    assert load(str(folder)).train.source == ("o\u2028ne", "tw\x0bo", "three", "four")


def test_paired_counts_what_is_left_of_either_side():
    assert list(paired("ab", "cd", ("l", "r"))) == [("a", "c"), ("b", "d")]
    with pytest.raises(UserError, match="l has 2 lines but r has 5"):
        list(paired("ab", "cdefg", ("l", "r")))


# Names of the registry.


def test_an_unknown_language_names_the_known_ones():
    with pytest.raises(UserError, match="tatoeba-ru, tatoeba-de, tatoeba-fr"):
        load("tatoeba-it")


@pytest.mark.parametrize("name", ["ud-ewt", "wikitext-2"])
def test_trees_and_text_are_not_pairs(name):
    with pytest.raises(UserError, match="not pairs of sentences"):
        load(name)


def test_msdocs_without_a_mirror_is_one_clear_line(downloads):
    with pytest.raises(UserError) as error:
        load("msdocs-ru")
    assert "HEADBOOK_DATA" in str(error.value) and "\n" not in str(error.value)
    assert "msdocs/en-ru/train.en.gz" in str(error.value)


def test_the_controlled_corpus_is_generated_and_split(monkeypatch):
    small = functools.partial(controlled.split, train=30, valid=3, test=5)
    monkeypatch.setattr(controlled, "split", small)
    corpus = load("controlled-sov", limit=10)
    assert (len(corpus.train), len(corpus.valid), len(corpus.tests["test"])) == (10, 3, 5)
    assert corpus.train.source == small(controlled.TargetOrder.SOV)[0].source[:10]
    assert load("controlled-sov", limit=10).digest == corpus.digest
    assert load("controlled-vso", limit=10).train.source == corpus.train.source
    assert load("controlled-vso", limit=10).train.target != corpus.train.target


def test_the_mirror_is_read_by_part_and_the_first_test_set_is_primary(tmp_path, monkeypatch):
    rows, mirror = [], tmp_path / "mirror"
    mirror.mkdir()
    for split in ("train", "valid", "test_b", "test_a"):
        for language in ("en", "de"):
            packed = gzip.compress(lines(f"{split} {language}"))
            (mirror / f"{split}.{language}.gz").write_bytes(packed)
            digest = hashlib.sha256(packed).hexdigest()
            part = f"{split}.{language}"
            rows.append(f'{{ part = "{part}", path = "{part}.gz", sha256 = "{digest}" }}')
    text = '[toy-de]\ntitle = "t"\nkind = "parallel"\ntarget = "de"\nlicence = "l"\npairs = 1\n'
    text += f'bytes = 1\nreader = "lines"\nmirror = [{", ".join(rows)}]\n'
    (tmp_path / "corpora.toml").write_text(text)
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.setenv("HEADBOOK_DATA", str(mirror))
    corpus = load("toy-de")
    assert list(corpus.train) == [("train en", "train de")]
    assert list(corpus.tests) == ["test_b", "test_a"]


# Public downloads: small files in the form in which they are distributed.


def test_a_public_test_set_has_tests_only(downloads):
    put_test_set("newstest2014-de", "newstest2014", ["news one", "news two"])
    corpus = load("newstest2014-de")
    assert (len(corpus.train), len(corpus.valid)) == (0, 0)
    assert list(corpus.tests["newstest2014"]) == [
        ("news one", "Ü news one"),
        ("news two", "Ü news two"),
    ]


def held_out_sets(language: str) -> None:
    put_test_set(f"newstest2014-{language}", "newstest2014", ["Seen in the news."])
    put_test_set(f"newstest2013-{language}", "newstest2013", ["Older news."])
    put_test_set(f"ntrex-{language}", "test", ["Seen in NTREX."])


def anki(rows: list[str]) -> bytes:
    return zipped({"_about.txt": b"about\n", "deu.txt": lines(*rows)})


def test_tatoeba_is_split_and_held_out_sentences_leave_it(downloads):
    held_out_sets("de")
    rows = [f"Sentence {index}.\tSatz {index}.\tCC-BY 2.0" for index in range(4_100)]
    put("tatoeba-de", {"table": anki([*rows, "seen in the news\tGesehen.\tCC-BY", "no tab"])})
    corpus = load("tatoeba-de")
    sizes = {name: len(pairs) for name, pairs in corpus.tests.items()}
    assert (len(corpus.valid), sizes) == (2_000, {"test": 2_000})
    assert len(corpus.train) + 4_000 + corpus.report.total(Reason.IN_EVALUATION) in (4_100, 4_101)
    assert "seen in the news" not in corpus.train.source
    assert corpus.train.target[0].startswith("Satz ")
    assert corpus.report.total(Reason.NOT_A_PAIR) == 1


def test_a_tatoeba_zip_without_its_table_is_named(downloads):
    held_out_sets("de")
    put("tatoeba-de", {"table": zipped({"_about.txt": b"about"})})
    with pytest.raises(UserError, match=r"deu-eng\.zip holds 0 tables"):
        load("tatoeba-de")


def test_a_page_in_place_of_a_zip_is_named(downloads):
    held_out_sets("de")
    put("tatoeba-de", {"table": b"<html>gone</html>"})
    with pytest.raises(UserError, match=r"deu-eng\.zip: not a readable zip"):
        load("tatoeba-de")


def bible(**sides: bytes) -> bytes:
    return zipped({f"bible-uedin.de-en.{side}": content for side, content in sides.items()})


def test_the_bible_is_read_from_its_moses_files(downloads):
    held_out_sets("de")
    english = lines(*(f"Verse {index}." for index in range(4_010)))
    german = lines(*(f"Vers {index}." for index in range(4_010)))
    put("bible-de", {"moses": bible(en=english, de=german)})
    corpus = load("bible-de")
    assert len(corpus.train) == 10
    assert all(s.replace("Verse", "Vers") == t for s, t in corpus.train)


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        ({"en": b"a\n"}, r"de-en\.txt\.zip holds 0 files ending in \.de"),
        ({"en": b"a\nb\n", "de": b"a\n"}, r"\.en has 2 lines but .*\.de has 1"),
        ({"en": b"a\n\xff\n", "de": b"a\nb\n"}, r"bible-uedin\.de-en\.en, line 2: not valid UTF-8"),
    ],
)
def test_a_spoilt_moses_archive_is_one_clear_line(downloads, sides, said):
    held_out_sets("de")
    put("bible-de", {"moses": bible(**sides)})
    with pytest.raises(UserError, match=said):
        load("bible-de")


# OpenSubtitles2018: the alignment has empty links the Moses files leave out.

OVERLAPS = [0.95, 0.9, 0.899, None]


def subtitles(count: int = 4_008, **changed: bytes) -> dict[str, bytes]:
    rows = range(1, count + 1)
    ids = lines(*(f"en/1/a.xml.gz\tru/1/b.xml.gz\t{row}\t{row} {row + 1}" for row in rows))
    links = []
    for row in rows:
        overlap = OVERLAPS[row % 4] if row > count - 8 else 1.0
        stated = "" if overlap is None else f' overlap="{overlap}"'
        links.append(f'<link id="SL{row}" xtargets="{row};{row} {row + 1}"{stated} />')
        links.append(f'<link id="SE{row}" xtargets=";{row}" />')
    group = '<linkGrp targType="s" fromDoc="en/1/a.xml.gz" toDoc="ru/1/b.xml.gz">'
    xml = lines('<?xml version="1.0" encoding="utf-8"?>', '<cesAlign version="1.0">', group)
    xml += lines(*links, "</linkGrp>", "</cesAlign>")
    members = {
        "README": b"read me",
        "OpenSubtitles.en-ru.en": lines(*(f"Line {row}." for row in rows)),
        "OpenSubtitles.en-ru.ru": lines(*(f"Строка {row}." for row in rows)),
        "OpenSubtitles.en-ru.ids": changed.get("ids", ids),
    }
    return {"moses": zipped(members), "alignment": gzip.compress(changed.get("xml", xml))}


def test_subtitles_keep_pairs_whose_times_overlap_enough(downloads):
    held_out_sets("ru")
    put("opensubtitles2018-ru", subtitles())
    corpus = load("opensubtitles2018-ru")
    kept = {
        line for part in (corpus.train, corpus.valid, corpus.tests["test"]) for line in part.source
    }
    last = {f"Line {row}." for row in range(4_001, 4_009)}
    right = {f"Line {row}." for row in range(4_001, 4_009) if row % 4 in (0, 1)}
    assert kept & last == right and len(kept) == 4_004
    assert corpus.report.total(Reason.LOW_OVERLAP) == 4
    assert corpus.report.read["all"] == 4_008
    assert all(s.split()[1] == t.split()[1] for s, t in corpus.train)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ids": lines("en/1/a.xml.gz\tru/1/b.xml.gz\t1\t9")}, r"pair 1 .*1;9"),
        ({"ids": lines("en/1/a.xml.gz\tru/1/b.xml.gz\t1\t1 2")}, r"pair 2 .*no line in the \.ids"),
        ({"ids": lines("en/1/a.xml.gz 1 1")}, r"\.ids, line 1: 1 columns"),
        ({"xml": b"<cesAlign><linkGrp>"}, r"en-ru\.xml\.gz: not a readable alignment file"),
    ],
)
def test_an_alignment_that_does_not_fit_is_one_clear_line(downloads, changed, said):
    held_out_sets("ru")
    put("opensubtitles2018-ru", subtitles(4, **changed))
    with pytest.raises(UserError, match=said):
        load("opensubtitles2018-ru")


# WMT: archives of line-aligned files of many pairs, and tables.


def common_crawl(language: str, source: list[str]) -> bytes:
    return tarred(
        {
            f"commoncrawl.{language}-en.en": lines(*source),
            f"commoncrawl.{language}-en.{language}": lines(*(f"cc {line}" for line in source)),
            "commoncrawl.cs-en.en": lines("other pair"),
            "commoncrawl.cs-en.cs": lines("other pair"),
        }
    )


def test_wmt_german_joins_its_archives_and_is_evaluated_on_newstest(downloads):
    held_out_sets("de")
    commentary = "training-parallel-nc-v13/news-commentary-v13.de-en"
    europarl = "training/europarl-v7.de-en"
    parts = {
        "news-commentary": tarred({f"{commentary}.en": b"opinion\n", f"{commentary}.de": b"nc\n"}),
        "commoncrawl": common_crawl("de", ["web page", "SEEN in the news", "older news"]),
        "europarl": tarred({f"{europarl}.en": b"speech\n\n", f"{europarl}.de": b"ep\nep\n"}),
    }
    put("wmt-de", parts)
    corpus = load("wmt-de")
    assert set(corpus.train) == {("opinion", "nc"), ("web page", "cc web page"), ("speech", "ep")}
    assert list(corpus.valid.source) == ["Older news."]
    assert {name: list(pairs.source) for name, pairs in corpus.tests.items()} == {
        "newstest2014": ["Seen in the news."]
    }
    assert corpus.report.total(Reason.IN_EVALUATION) == 2
    assert corpus.report.total(Reason.EMPTY_SIDE) == 1


def test_wmt_french_reads_a_packed_table_and_russian_a_zip(downloads):
    held_out_sets("fr")
    held_out_sets("ru")
    crawl = tarred(
        {
            f"commoncrawl.{language}-en.{side}": lines(f"{language} {side}")
            for language in ("fr", "ru")
            for side in ("en", language)
        }
    )
    speech = {
        "training/europarl-v7.fr-en.en": b"speech\n",
        "training/europarl-v7.fr-en.fr": b"ep\n",
    }
    table = gzip.compress(lines("opinion\tavis", "alone"))
    put("wmt-fr", {"news-commentary": table, "commoncrawl": crawl, "europarl": tarred(speech)})
    corpus = load("wmt-fr")
    assert set(corpus.train) == {("opinion", "avis"), ("fr en", "fr fr"), ("speech", "ep")}
    assert corpus.report.total(Reason.NOT_A_PAIR) == 1
    commentary = "training-parallel-nc-v13/news-commentary-v13.ru-en"
    yandex = zipped(
        {"1mcorpus/corpus.en_ru.1m.en": b"ya\n", "1mcorpus/corpus.en_ru.1m.ru": b"yandex\n"}
    )
    news = tarred({f"{commentary}.en": b"opinion\n", f"{commentary}.ru": b"nc\n"})
    put("wmt-ru", {"news-commentary": news, "commoncrawl": crawl, "yandex": yandex})
    assert ("ya", "yandex") in set(load("wmt-ru").train)


def test_an_archive_without_the_language_pair_is_named(downloads):
    held_out_sets("de")
    empty = tarred({"commoncrawl.cs-en.en": b"a\n"})
    put("wmt-de", {part: empty for part in ("news-commentary", "commoncrawl", "europarl")})
    with pytest.raises(UserError, match=r"nc-v13\.tgz holds 0 files for en-de ending in \.en"):
        load("wmt-de")


@pytest.mark.parametrize("content", [b"<html>", common_crawl("de", WORDS)[:120]])
def test_an_unreadable_archive_is_named(downloads, content):
    held_out_sets("de")
    put("wmt-de", {part: content for part in ("news-commentary", "commoncrawl", "europarl")})
    with pytest.raises(UserError, match=r"nc-v13\.tgz: damaged file"):
        load("wmt-de")


def test_every_public_reader_is_used_by_some_corpus():
    assert {entry.reader for entry in registry.registry().values()} >= set(readers.READERS)


def test_pairs_of_nothing_are_empty():
    assert len(Pairs.of([])) == 0


# A mixture: several corpora as one.

MIXTURE = """
[part-a-de]
title = "a"
kind = "parallel"
target = "de"
licence = "l"
pairs = 3
bytes = 1
reader = "lines"
mirror = [{mirror_a}]
public = []

[part-b-de]
title = "b"
kind = "parallel"
target = "de"
licence = "l"
pairs = 2
bytes = 1
reader = "lines"
mirror = [{mirror_b}]
public = []

[mixed-de]
title = "both"
kind = "mixture"
target = "de"
licence = "those of its parts"
pairs = 4
bytes = 0
reader = "mixture"
of = ["part-a-de", "part-b-de"]
"""


@pytest.fixture
def mixture(tmp_path, monkeypatch):
    """Two small corpora in a mirror, of which one's test sentence is the other's training text."""
    texts = {
        "a": {"train": ["one", "two", "Three."], "valid": ["four"], "test": ["five"]},
        "b": {"train": ["seven", "eight"], "valid": ["nine"], "test": ["three"]},
    }
    mirrors = {}
    for part, splits in texts.items():
        rows = []
        for split, english in splits.items():
            path = tmp_path / part / f"{split}.tsv"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(lines(*(f"{word}\tÜ {word}" for word in english)))
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            rows.append(
                f'{{ part = "{split}.tsv", path = "{part}/{split}.tsv", sha256 = "{digest}" }}'
            )
        mirrors[f"mirror_{part}"] = ", ".join(rows)
    (tmp_path / "corpora.toml").write_text(MIXTURE.format(**mirrors), encoding="utf-8")
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.setenv("HEADBOOK_DATA", str(tmp_path))
    monkeypatch.setenv("HEADBOOK_DOWNLOADS", str(tmp_path / "raw"))
    return tmp_path


def test_a_mixture_joins_training_pairs_and_keeps_each_test_set(mixture):
    corpus = load("mixed-de")
    assert set(corpus.train.source) == {"one", "two", "seven", "eight"}
    assert all(target == f"Ü {source}" for source, target in corpus.train)
    assert corpus.valid.source == ("four", "nine")
    assert {name: pairs.source for name, pairs in corpus.tests.items()} == {
        "part-a-de": ("five",),
        "part-b-de": ("three",),
    }
    assert corpus.report.total(Reason.IN_EVALUATION) == 1  # a's "Three." is b's test sentence
    assert load("mixed-de", limit=2).train == corpus.train.first(2)


def test_a_mixture_is_where_all_of_its_corpora_are(mixture):
    assert registry.place(registry.corpus("mixed-de")) is registry.Place.MIRROR
    assert len(download.locate("mixed-de").files) == 6
    (mixture / "b" / "test.tsv").unlink()
    assert registry.place(registry.corpus("mixed-de")) is registry.Place.ABSENT
    with pytest.raises(UserError, match=r"test\.tsv is missing"):
        load("mixed-de")
