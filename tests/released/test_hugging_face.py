"""Loading a Hugging Face model, its tokens and spans, and what can be wrong with it."""

import json
import shutil
from pathlib import Path

import pytest
import tiny_whisper
import torch
import transformers
from refusing import refuses
from tiny_hugging import BERT, built, save

from headbook.released.catalogue import catalogue, folder_of
from headbook.released.hugging_face import HuggingModel, load
from headbook.released.hugging_text import HuggingText
from headbook.released.network import Stacks
from headbook.released.spans import cover, matched

SENTENCE = "The naïve dog didn't bark… 日本 twice."


@pytest.fixture(scope="module")
def minilm() -> HuggingModel:
    return load("minilm")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT without a head, of twelve positions."""
    bert = built("BertModel", **BERT | {"vocab_size": 40, "max_position_embeddings": 12})
    save(bert, ["a"], folder := tmp_path_factory.mktemp("short"))
    return folder


def test_minilm_s_tokens_lie_where_they_stand_and_give_its_vectors(
    minilm: HuggingModel,
) -> None:
    pieces, spans = minilm.pieces(SENTENCE), minilm.spans(SENTENCE)
    assert pieces[0] == "[CLS]" and pieces[-1] == "[SEP]"
    assert spans[0] is spans[-1] is None and None not in spans[1:-1]
    texts = [SENTENCE[slice(*span)] for span in spans if span is not None]
    assert texts[:5] == ["The", "naïve", "dog", "didn", "'"]
    (batch,) = minilm.batches([SENTENCE, "No."])
    row = batch.sentences.tolist().index(0)
    assert batch.source_boundary[row].tolist() == [span is None for span in spans]
    assert batch.source_boundary[1 - row].nonzero().flatten().tolist() == [0, 3]
    other = transformers.AutoModel.from_pretrained(folder_of(catalogue()["minilm"])).eval()
    with torch.no_grad():
        expected = other(batch.source, attention_mask=batch.source_mask.long()).last_hidden_state
    real = batch.source_mask
    torch.testing.assert_close(minilm.encoded(batch)[real], expected[real], rtol=0, atol=1e-5)


def test_what_cannot_be_loaded_is_one_line(saved: Path, tmp_path: Path) -> None:
    refuses(lambda: load("nobody/no-such-model"), "huggingface.co")
    refuses(lambda: load(tmp_path), "no config.json")
    folder = Path(shutil.copytree(saved, tmp_path / "copy"))
    weights, config = folder / "model.safetensors", json.loads((folder / "config.json").read_text())
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    refuses(lambda: load(folder), "cannot read it")
    weights.write_bytes(whole)
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    refuses(lambda: load(folder), "16 of its weights are missing")
    (folder / "tokenizer.json").unlink()
    refuses(lambda: load(folder), "no tokenizer")


def test_what_a_model_does_not_do_is_one_line(saved: Path) -> None:
    model = load(saved)
    assert model.batches(["a " * 11])[0].source.shape == (1, 12)
    refuses(lambda: model.batches(["a " * 12]), "has 13 tokens, but the model takes 1 to 12")
    refuses(lambda: matched("a whole sentence", ["▁something", "▁else"]), "do not spell")


@pytest.mark.parametrize(
    ("sentence", "pieces", "expected"),
    [
        ("ﬁne day", ["▁fi", "ne", "▁day"], ["ﬁ", "ne", "day"]),
        ("½ cup of milk", ["▁1⁄2", "▁cup", "▁of", "▁milk"], ["½", "cup", "of", "milk"]),
        ("a dog, two", ["▁a", "▁dog", "<unk>", "▁two"], ["a", "dog", ",", "two"]),
        ("the dog", ["▁", "the", "▁dog"], ["", "the", "dog"]),
        ("the  dog’s 日", ["▁the", "▁do", "g", "'", "s", "▁", "日"],
         ["the", "do", "g", "’", "s", "", "日"]),
    ],
)  # fmt: skip
def test_matched_pieces_stand_at_their_text(
    sentence: str, pieces: list[str], expected: list[str]
) -> None:
    spans = matched(sentence, pieces)
    assert [sentence[slice(*span)] for span in spans] == expected
    assert cover(sentence, spans) and not cover(sentence, spans[:-1])
    assert not cover(sentence, spans[::-1])


def test_byte_level_pieces_do_not_count_the_space_before_them() -> None:
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tiny_whisper.tokenizer())
    text = HuggingText(tokenizer, Stacks.DECODER, limit=None, padding=0)
    assert text.spans("at cat é")[2:-1] == [(0, 2), (3, 6), (6, 7), (7, 8), (7, 8)]


def test_marian_s_own_tokenizer_is_read(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    text = tmp_path / "text"
    text.write_text("the dog sees the cat\nthe cat didn't bark twice\n" * 30, "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "both"), vocab_size=24, minloglevel=2
    )
    trained = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "both.model"))
    pieces = [trained.id_to_piece(at) for at in range(trained.get_piece_size())]
    vocabulary = {piece: at for at, piece in enumerate(dict.fromkeys(["</s>", "<unk>", *pieces]))}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary | {"<pad>": len(vocabulary)}))
    for side in ("source.spm", "target.spm"):
        shutil.copy(tmp_path / "both.model", tmp_path / side)
    files = [str(tmp_path / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = transformers.MarianTokenizer(*files, source_lang="en", target_lang="ru")
    text = HuggingText(tokenizer, Stacks.BOTH, limit=None, padding=len(vocabulary), start=2)
    sentence = "The dog didn’t see 日本."
    spans = text.spans(sentence)
    assert spans[-1] is None and None not in spans[:-1]
    assert cover(sentence, [span for span in spans if span is not None])
    (batch,) = text.batches([sentence], ["the dog"], 100)
    assert batch.source_boundary.tolist() == [[span is None for span in spans]]
    assert batch.target_in[0, 0] == 2 and batch.target_out[0, -1] == vocabulary["</s>"]
    assert batch.input_boundary[0].nonzero().flatten().tolist() == [0]
    assert batch.output_boundary[0].nonzero().flatten().tolist() == [batch.target_in.shape[1] - 1]
