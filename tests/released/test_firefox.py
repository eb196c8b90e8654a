"""A loaded student's text side, its losses, and folders: copied, gzipped, damaged."""

import gzip
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headbook.released.catalogue import entry, folder_of
from headbook.released.firefox import FirefoxModel, load_firefox, read_folder
from headbook.released.marian_binary import read_marian
from headbook.released.marian_student import _names, read_student
from headbook.released.pieces import Pieces
from headbook.released.shortlist import read_shortlist
from headbook.text.alignment import NO_WORD, align_all
from headbook.text.trees import Tree
from headbook.types import UserError

FOLDER = folder_of(entry("firefox-en-pt"))
MODEL, VOCABULARY, SHORTLIST = (
    next(FOLDER.glob(pattern)) for pattern in ("model*.bin", "vocab*.spm", "lex*.bin")
)


def refused(call: Callable[[], object]) -> str:
    """The one line that a call is refused with."""
    with pytest.raises(UserError) as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line and len(line) < 400
    return line


def changed(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


# Text


def test_batches_mark_what_is_special(en_pt: FirefoxModel) -> None:
    given = ["Yes.", "A much longer sentence than that, with a comma.", "No, never."]
    batches = en_pt.batches(given, ["Sim.", "Uma frase.", "Não, nunca."])
    seen = {}
    for batch in batches:
        for row, sentence in enumerate(batch.sentences.tolist()):
            real, special = batch.source_mask[row], batch.source_boundary[row]
            assert int(real.sum()) == len(en_pt.pieces(given[sentence]))
            assert special.sum() == 1 and bool(special[real.sum() - 1])
            assert batch.input_boundary[row].nonzero().flatten().tolist() == [0]
            assert batch.target_out[row][batch.output_boundary[row]].tolist() == [0]
            seen[sentence] = int(batch.target_mask[row].sum())
    assert sorted(seen) == [0, 1, 2]


def test_without_targets_there_is_an_end_alone(en_pt: FirefoxModel) -> None:
    (batch,) = en_pt.batches(["A cat.", "Two cats."])
    assert batch.target_out.tolist() == [[0], [0]]
    assert en_pt.losses(batch).shape == (2,)


def test_no_sentences_are_no_batches(en_pt: FirefoxModel) -> None:
    assert en_pt.batches([]) == [] and en_pt.translate([]) == []


def test_spans_are_the_pieces(en_pt: FirefoxModel) -> None:
    sentence = "What's  a café (x) 日本?"
    spans, pieces = en_pt.spans(sentence), en_pt.pieces(sentence)
    assert len(spans) == len(pieces) and spans[-1] is None and pieces[-1] == "</s>"
    cut = [sentence[span[0] : span[1]] for span in spans[:-1]]
    assert cut[:5] == ["What", "'", "s", "a", "café"]
    assert "".join(cut).replace(" ", "") == sentence.replace(" ", "")


def test_words_find_their_pieces(en_pt: FirefoxModel) -> None:
    text = "Unbelievable cats sleep."
    tree = Tree(
        text=text,
        words=((0, 12), (13, 17), (18, 23), (23, 24)),
        heads=(1, 2, -1, 2),
        relations=("amod", "nsubj", "root", "punct"),
        tags=("ADJ", "NOUN", "VERB", "PUNCT"),
    )
    aligned = align_all(tree, en_pt.spans(text))
    assert aligned.pieces[-1] == NO_WORD
    assert aligned.pieces[:-1].tolist() == sorted(aligned.pieces[:-1].tolist())
    assert set(aligned.pieces[:-1].tolist()) == {0, 1, 2, 3} and not aligned.dropped


@pytest.mark.parametrize(
    ("sentences", "said"),
    [(["Yes.", " "], "sentence 2 is empty"), (["yes " * 1200], "split it")],
)
def test_a_sentence_that_cannot_be_read(
    en_pt: FirefoxModel, sentences: list[str], said: str
) -> None:
    assert said in refused(lambda: en_pt.batches(sentences))


def test_translations_must_be_as_many(en_pt: FirefoxModel) -> None:
    assert "2 sentences have 1" in refused(lambda: en_pt.batches(["a", "b"], ["c"]))


# Losses


def test_losses_are_cross_entropies(en_pt: FirefoxModel) -> None:
    given, targets = ["A cat sleeps.", "No."], ["Um gato dorme.", "Não."]
    (batch,) = en_pt.batches(given, targets)
    with torch.inference_mode():
        found = en_pt.losses(batch)
        scores = en_pt.network(batch).double().log_softmax(-1)
        limited = en_pt.losses(batch, shortlist=True)
    expected = [
        -scores[row, at, batch.target_out[row, at]]
        for row in range(2)
        for at in range(int(batch.target_mask[row].sum()))
    ]
    torch.testing.assert_close(found.double(), torch.stack(expected), atol=1e-4, rtol=1e-4)
    assert (limited <= found + 1e-5).all() and limited.mean() > 0.5 * found.mean()


def test_its_own_translation_is_likelier_than_another(en_pt: FirefoxModel) -> None:
    sentence = "The house is red."
    own = en_pt.translate([sentence])
    with torch.inference_mode():
        mine, other = (
            float(en_pt.losses(en_pt.batches([sentence], [target])[0]).mean())
            for target in (own[0], "O gato dorme.")
        )
    assert mine < 0.5 < other


def test_a_row_translates_alike_in_company(en_pt: FirefoxModel) -> None:
    given = ["No.", "The house that we saw yesterday, near the river, is red.", "I like it."]
    assert en_pt.translate(given) == [en_pt.translate([each])[0] for each in given]


# Folders


def test_a_copied_folder_loads_the_same(en_pt: FirefoxModel, sentences, tmp_path: Path) -> None:
    """Without tokenizer.json, and gzipped as Mozilla publishes them."""
    shutil.copy(MODEL, tmp_path)
    for path in (VOCABULARY, SHORTLIST):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    copied = load_firefox(str(tmp_path))
    assert copied.languages == ("en", "pt") and entry("firefox-en-pt").sha256 in copied.origin
    few = sentences[:6]
    assert copied.translate(few) == en_pt.translate(few)
    everything = [*sentences, "What's  a café™ (x) 日本 – 12.5% ① Ⅷ ok?", "naïve e\u0301 \u200b ½"]
    for sentence in everything:
        assert copied.spans(sentence) == en_pt.spans(sentence)
        assert copied.pieces(sentence) == en_pt.pieces(sentence)


def test_a_folder_without_a_shortlist(en_pt: FirefoxModel, tmp_path: Path) -> None:
    for path in (MODEL, VOCABULARY):
        shutil.copy(path, tmp_path)
    model = read_folder(tmp_path)
    assert model.translate(["The house is red."]) == en_pt.translate(
        ["The house is red."], shortlist=False
    )
    batch = model.batches(["A cat."])[0]
    assert torch.equal(model.losses(batch, shortlist=True), model.losses(batch))
    assert "no shortlist" in refused(lambda: model.candidates(batch))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "has no model*.bin"),
        ({"model.enpt.bin": b""}, "not a whole Marian model file"),
        ({"model.enpt.bin": b"PK\3\4" * 40}, "not a whole Marian model file"),
        ({"model.enpt.bin.gz": b"not gzip"}, "cannot be read"),
        ({"model.enpt.bin": b"", "model.ende.bin": b""}, "more than one"),
    ],
)
def test_a_folder_that_is_none(files: dict[str, bytes], said: str, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert said in refused(lambda: read_folder(tmp_path))


def test_a_folder_with_another_models_vocabulary(written, tmp_path: Path) -> None:
    (tmp_path / "model.enpt.bin").write_bytes(written())
    assert "has no vocab*.spm" in refused(lambda: read_folder(tmp_path))
    shutil.copy(VOCABULARY, tmp_path)
    assert "another model's" in refused(lambda: read_folder(tmp_path))


def test_a_model_file_that_does_not_say_its_languages(tmp_path: Path) -> None:
    shutil.copy(MODEL, tmp_path / "model.bin")
    shutil.copy(VOCABULARY, tmp_path)
    assert "does not say its languages" in refused(lambda: read_folder(tmp_path))


def test_another_digest_is_refused() -> None:
    assert "sha256" in refused(lambda: read_folder(FOLDER, sha256="0" * 64))


# The model file


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.3, 0.999])
def test_a_cut_model_file(share: float) -> None:
    content = MODEL.read_bytes()
    cut = content[: int(share * len(content))]
    assert "it again" in refused(lambda: read_marian(cut, "model"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda content: changed(content, 0, b"\2"), "version 2"),
        (lambda content: changed(content, 8, b"\xff" * 8), "arrays in"),
        (lambda content: changed(content, 16 + 8, b"\7\7"), "unknown type"),
        (lambda content: content + b"\0", "too many"),
        (lambda content: content.replace(b"special:model.yml", b"special:model.xml"), "model.yml"),
        (lambda content: content.replace(b"dec-depth", b"dec\tdep: "), "model file"),
        (lambda content: content.replace(b"Wemb\0", b"W\xff\xfeb\0"), "utf-8"),
    ],
)
def test_a_damaged_model_file(damage, said: str, written) -> None:
    content = written()
    assert said in refused(lambda: read_marian(damage(content), "model"))


def test_weights_come_back_as_they_were_written(written) -> None:
    generator = np.random.default_rng(7)
    rectangle = generator.integers(-127, 128, (8, 12)).astype(np.int8)
    scale = generator.normal(size=(1, 8)).astype(np.float32)
    content = written(
        replaced={"encoder_l2_ffn_W1": rectangle, "decoder_l3_rnn_ffn_ln_scale": scale}
    )
    student = read_student(read_marian(content, "model"), "model")
    np.testing.assert_allclose(
        student.encoder[1].feed_forward.first.weight.detach(), rectangle.T / 63.5, rtol=1e-6
    )
    np.testing.assert_array_equal(student.decoder[2].recurrence_norm.weight.detach(), scale[0])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("type", "s2s"),
        ("dec-cell", "gru"),
        ("transformer-decoder-autoreg", "self-attention"),
        ("transformer-preprocess", "n"),
        ("transformer-postprocess", "da"),
        ("transformer-ffn-activation", "swish"),
        ("transformer-ffn-depth", 3),
        ("transformer-tied-layers", [1, 1]),
        ("transformer-train-position-embeddings", True),
        ("transformer-rnn-projection", True),
        ("tied-embeddings-all", False),
        ("transformer-heads", 3),
        ("dim-emb", "wide"),
        ("enc-depth", 3),
        ("enc-depth", 10**12),
        ("dim-emb", 10**12),
        ("dim-vocabs", [16]),
        ("dim-vocabs", [16, 17]),
        ("transformer-dim-ffn", 13),
    ],
)
def test_another_architecture_is_refused(option: str, value, written) -> None:
    file = read_marian(written(changed={option: value}), "model")
    refused(lambda: read_student(file, "model"))


@pytest.mark.parametrize("array", [None, np.zeros((8, 9), np.int8), np.zeros((1, 64), np.float32)])
def test_a_missing_or_misshapen_array_is_refused(array, written) -> None:
    file = read_marian(written(replaced={"decoder_l1_context_Wv": array}), "model")
    assert "decoder_l1_context_Wv" in refused(lambda: read_student(file, "model"))


def test_another_shape_is_read_from_the_file(written) -> None:
    from_file = read_student(read_marian(written(), "model"), "model").shape
    other = replace(
        from_file,
        encoder_layers=1,
        decoder_layers=6,
        width=12,
        heads=3,
        target_vocabulary=20,
        shared=False,
    )
    content = written(shape=other)
    student = read_student(read_marian(content, "model"), "model")
    assert student.shape == other and len(student.decoder) == 6
    assert student.source is not student.target
    assert dict(_names(other))["target.weight"] == "decoder_Wemb"


# The vocabulary and the shortlist


@pytest.mark.parametrize("cut", [1, 5, 1_000, -1])
def test_a_cut_vocabulary(cut: int) -> None:
    content = VOCABULARY.read_bytes()[:cut]
    assert "SentencePiece" in refused(lambda: Pieces.from_sentencepiece(content, "vocabulary"))


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    assert "tokenizer" in refused(lambda: Pieces.from_json(tmp_path / "tokenizer.json"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:20],
        lambda content: content[:-4],
        lambda content: changed(content, 0, b"\0"),
        lambda content: changed(content, 48 + 8, b"\xff" * 6),
        lambda content: changed(content, len(content) - 4, b"\xff\xff\xff\xff"),
    ],
)
def test_a_damaged_shortlist(damage) -> None:
    content = damage(SHORTLIST.read_bytes())
    assert "shortlist" in refused(lambda: read_shortlist(content, "lex", 32_000, 32_000))


def test_a_shortlist_of_another_vocabulary() -> None:
    content = SHORTLIST.read_bytes()
    assert "31000" in refused(lambda: read_shortlist(content, "lex", 31_000, 31_000))


def test_candidates_are_the_frequent_and_the_sources() -> None:
    shortlist = read_shortlist(SHORTLIST.read_bytes(), "lex", 32_000, 32_000)
    found = shortlist.candidates([495, 0], 32_000)
    own = {
        int(each)
        for source in (495, 0)
        for each in shortlist.ids[shortlist.offsets[source] : shortlist.offsets[source + 1]]
    }
    assert set(range(50)) | own <= set(found) and len(found) % 8 == 0
    assert len(found) - len(set(range(50)) | own) < 8
    assert found == sorted(set(found))
