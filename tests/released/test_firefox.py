"""A loaded student's text side, its losses, and folders: copied, gzipped, damaged."""

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from refusing import refused, refuses
from tokenizers import Tokenizer

import headbook as hb
from headbook.released.catalogue import catalogue, folder_of
from headbook.released.firefox import FirefoxModel, read_folder
from headbook.released.marian_binary import read_marian
from headbook.released.marian_student import read_student
from headbook.released.pieces import Pieces
from headbook.released.shortlist import read_shortlist

FOLDER = folder_of(catalogue()["firefox-en-pt"])
MODEL, VOCABULARY, SHORTLIST = (
    next(FOLDER.glob(pattern)) for pattern in ("model*.bin", "vocab*.spm", "lex*.bin")
)


def test_batches_mark_what_is_special(en_pt: FirefoxModel) -> None:
    given = ["Yes.", "A much longer sentence than that, with a comma.", "No, never."]
    (batch,) = en_pt.batches(given, ["Sim.", "Uma frase.", "Não, nunca."])
    for row, sentence in enumerate(batch.sentences.tolist()):
        real, special = batch.source_mask[row], batch.source_boundary[row]
        assert int(real.sum()) == len(en_pt.pieces(given[sentence]))
        assert special.sum() == 1 and bool(special[real.sum() - 1])
        assert batch.input_boundary[row].nonzero().flatten().tolist() == [0]
        assert batch.target_out[row][batch.output_boundary[row]].tolist() == [0]


def test_spans_are_the_pieces(en_pt: FirefoxModel) -> None:
    sentence = "What's  a café (x) 日本?"
    spans = en_pt.spans(sentence)
    assert len(spans) == len(en_pt.pieces(sentence)) and spans[-1] is None
    cut = [sentence[span[0] : span[1]] for span in spans[:-1]]
    assert cut[:5] == ["What", "'", "s", "a", "café"]
    assert "".join(cut).replace(" ", "") == sentence.replace(" ", "")


def test_losses_are_cross_entropies(en_pt: FirefoxModel) -> None:
    (batch,) = en_pt.batches(["A cat sleeps.", "No."], ["Um gato dorme.", "Não."])
    with torch.inference_mode():
        found = en_pt.losses(batch)
        scores = en_pt.network(batch).double().log_softmax(-1)
        limited = en_pt.losses(batch, shortlist=True)
    expected = -scores.gather(-1, batch.target_out[..., None])[..., 0][batch.target_mask]
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-4)
    assert (limited <= found + 1e-5).all() and limited.mean() > 0.5 * found.mean()


def test_a_copied_folder_loads_the_same(en_pt: FirefoxModel, sentences, tmp_path: Path) -> None:
    """Gzipped as Mozilla publishes it; the ids are those of the package's tokenizer."""
    shutil.copy(MODEL, tmp_path)
    for path in (VOCABULARY, SHORTLIST):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    copied = read_folder(tmp_path)
    assert copied.languages == ("en", "pt") and catalogue()["firefox-en-pt"].sha256 in copied.origin
    assert copied.translate(sentences[:3]) == en_pt.translate(sentences[:3])
    theirs = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    for each in [*sentences, "What's  a café™ (x) 日本 – 12.5% ① Ⅷ ok?", "naïve e\u0301 \u200b ½"]:
        assert copied.source.encode([each]) == [theirs.encode(each).ids]


def test_a_pruned_student_is_saved_read_and_pruned_again(en_pt, sentences, tmp_path: Path) -> None:
    """Its folder computes what the whole does with these heads silent; a damaged one says so."""
    gone, first, second = ["L1H2", "L6H1", "L6H8", "cross L2H3"], tmp_path / "a b", tmp_path / "c"
    batch = en_pt.batches(sentences[:3], en_pt.translate(sentences[:3]))[0]
    with torch.no_grad(), hb.close(en_pt, gone):
        wanted = en_pt.network(batch)
    for shape, least in (("small", 6), ("full", 8)):
        folder = first / shape
        hb.prune(en_pt, gone).save(folder, shape=shape)
        read = hb.load(folder)
        assert min(block.heads for *_, block in read.network.attentions()) == least
        with torch.no_grad():
            torch.testing.assert_close(read.network(batch), wanted, rtol=1e-4, atol=1e-3)
    assert read.languages == ("en", "pt") and en_pt.origin == read.origin
    small = hb.load(first / "small")
    heads = hb.measure(small, hb.text(sentences[:3]), importance=False, nulls=0)
    assert len(heads) == 8 * 8 - len(gone), "layers whose heads are no share of the width"
    hb.prune(small, ["L6H6"]).save(second)
    assert [*hb.load(second).network.attentions()][5][2].heads == 5
    (second / "student.json").write_text("{}")
    refuses(lambda: hb.load(second), "prune and save again")


def test_folders_that_hold_no_student(written, tmp_path: Path, en_pt: FirefoxModel) -> None:
    refuses(lambda: en_pt.batches(["Yes.", " "]), "sentence 2 has 0 pieces")
    refuses(lambda: en_pt.batches(["yes " * 1200]), "split it")
    refuses(lambda: en_pt.batches(["a", "b"], ["c"]), "2 sentences have 1")
    another = replace(catalogue()["firefox-en-pt"], sha256="0" * 64)
    refuses(lambda: read_folder(FOLDER, another), "sha256")
    refuses(lambda: read_folder(tmp_path), r"model\*.bin")
    (tmp_path / "model.enpt.bin.gz").write_bytes(b"not gzip")
    refuses(lambda: read_folder(tmp_path), "cannot be read")
    (tmp_path / "model.enpt.bin").write_bytes(written())
    refuses(lambda: read_folder(tmp_path), "model.enpt.bin, model.enpt.bin.gz")
    (tmp_path / "model.enpt.bin.gz").unlink()
    refuses(lambda: read_folder(tmp_path), r"vocab\*.spm")
    shutil.copy(VOCABULARY, tmp_path)
    refuses(lambda: read_folder(tmp_path), "another model's")
    (tmp_path / "model.enpt.bin").unlink()
    shutil.copy(MODEL, tmp_path / "model.bin")
    refuses(lambda: read_folder(tmp_path), "does not say its languages")


def test_a_damaged_model_file(written) -> None:
    whole = written()
    for damaged in (
        whole[:300],
        whole[:-1],
        b"\2" + whole[1:],
        whole.replace(b"special:model.yml", b"special:model.xml"),
        whole.replace(b"Wemb\0", b"W\xff\xfeb\0"),
    ):
        with refused("model is not a whole Marian"):
            read_marian(damaged, "model")


def test_another_architecture_is_refused(written) -> None:
    wide = np.zeros((8, 9), np.int8)
    for given in (
        {"changed": {"transformer-ffn-activation": "swish"}},
        {"changed": {"transformer-heads": 3}},
        {"replaced": {"decoder_l1_context_Wv": wide}},
        {"replaced": {"encoder_Wpos": wide}},  # learnt positions
    ):
        with refused("another architecture"):
            read_student(read_marian(written(**given), "model"), "model")


def test_a_damaged_shortlist_or_vocabulary() -> None:
    whole = SHORTLIST.read_bytes()
    for damaged in (whole[:-4], b"\0" + whole[1:], whole[:-4] + b"\xff" * 4):
        with refused("lex"):
            read_shortlist(damaged, "lex", 32_000, 32_000)
    refuses(lambda: read_shortlist(whole, "lex", 31_000, 31_000), "lex")
    refuses(lambda: Pieces(VOCABULARY.read_bytes()[:-1], "vocabulary"), "SentencePiece")


def test_candidates_are_the_frequent_and_the_sources() -> None:
    lists, wanted = read_shortlist(SHORTLIST.read_bytes(), "lex", 32_000, 32_000), {*range(50)}
    for source in (70, 96, 0):
        wanted |= {*lists.ids[lists.offsets[source] : lists.offsets[source + 1]].tolist()}
    found = lists.candidates([70, 96, 0], 32_000)
    assert wanted <= {*found} and len(found) == -(-len(wanted) // 8) * 8
