"""Attention between words and between tokens, against hand counts and one sentence at a time."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refused
from small import cut_out
from tiny_hugging import gpt2, save

import headbook as hb
from headbook.looking import attention as module
from headbook.looking.naming import named
from headbook.looking.ours import OurModel
from headbook.looking.text import Text
from headbook.models.capture import Point, capture
from headbook.models.gates import closed
from headbook.models.loaded import Loaded
from headbook.models.transformer import Transformer
from headbook.text.trees import ROOT, Tree
from headbook.types import Kind

LENGTHS = (33, 1, 129, 9, 2)
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def ladder(sample: Text) -> list[str]:
    """One sentence of each length in words, the longest in the middle."""
    words = [word for sentence in sample.sentences for word in sentence.split() if word.isalpha()]
    return [" ".join(words[7 * length : 8 * length]) for length in LENGTHS]


def weights_of(
    model: Loaded, sentence: str, kind: Kind = Kind.ENCODER, target: str | None = None
) -> np.ndarray:
    (batch,) = model.batches([sentence], None if target is None else [target])
    with torch.inference_mode(), capture(model.network, {Point.WEIGHTS}) as tape:
        model.network(batch)
    return np.stack([layer[0].numpy() for layer in tape[kind, Point.WEIGHTS]])


def by_hand(tokens: np.ndarray, *sides: tuple) -> np.ndarray:
    """Means over the tokens of the asking word of sums over those of the other, in loops.

    A side is the words' spans and the tokens' spans.
    """
    owned = [
        [[n for n, each in enumerate(spans) if each and each[0] in range(*word)] for word in words]
        for words, spans in sides
    ]
    found = np.zeros((*tokens.shape[:2], len(owned[0]), len(owned[1])))
    for row, asking in enumerate(owned[0]):
        for column, looked in enumerate(owned[1]):
            sums = [sum(tokens[:, :, one, other] for other in looked) for one in asking]
            found[:, :, row, column] = sum(sums) / max(len(asking), 1)
    return found


def words_between_spaces(sentence: str) -> list[tuple[int, int]]:
    return [word.span() for word in re.finditer(r"\S+", sentence)]


def test_words_of_two_tokens_by_hand(with_weights: Callable):
    text = "New York is big"
    tokens = torch.tensor(
        [
            [0.1, 0.2, 0.3, 0.4, 0.0],
            [0.5, 0.1, 0.1, 0.1, 0.2],
            [0.2, 0.3, 0.1, 0.1, 0.3],
            [0.0, 0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    model = with_weights({text: torch.stack([tokens, tokens.T])[None]})
    # "is" is cut in two where the model has one token: the second part has none of its own
    tree = Tree(text, ((0, 8), (9, 10), (10, 11), (12, 15)), (ROOT,) * 4, ("",) * 4)
    found = hb.attention(model, tree)
    expected = [[0.45, 0.2, 0, 0.25], [0.5, 0.1, 0, 0.1], [0, 0, 0, 0], [0, 1, 0, 0]]
    np.testing.assert_allclose(found["L1H1"], expected, **CLOSE)
    turned = [[0.45, 0.25, 0, 0], [0.4, 0.1, 0, 1], [0, 0, 0, 0], [0.5, 0.1, 0, 0]]
    np.testing.assert_allclose(found["L1H2"], turned, **CLOSE)
    assert found.words == found.keys == ("New York", "i", "s", "big")
    assert found.pieces.tolist() == [2, 1, 0, 1]


def test_a_ragged_text_is_read_as_its_sentences_are_one_by_one(ours: OurModel, ladder: list[str]):
    found = hb.attention(ours, ladder)
    assert [len(each.words) for each in found] == list(LENGTHS)
    for sentence, each in zip(ladder, found, strict=True):
        alone = hb.attention(ours, sentence)
        np.testing.assert_allclose(each.weights, alone.weights, **CLOSE)
        assert each.words == alone.words and (each.pieces == alone.pieces).all()
        assert each.pieces.sum() == sum(span is not None for span in ours.spans(sentence))


def test_a_text_is_a_sequence(ours: OurModel, sample: Text, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "AT_ONCE", 3)
    text = replace(sample, sentences=sample.sentences[:8], trees=sample.trees[:8])
    found = hb.attention(ours, text)
    every = list(found)
    assert [each.words for each in every] == [tree.forms for tree in text.trees]
    np.testing.assert_allclose(found[-1].weights, every[7].weights, **CLOSE)
    assert [each.words for each in found[2:5]] == [each.words for each in every[2:5]]
    with pytest.raises(IndexError):
        found[8]
    plain = hb.attention(ours, replace(text, trees=()))
    assert "".join(plain[0].words) == text.sentences[0].replace(" ", "")


@pytest.fixture
def translated(ours: OurModel, ladder: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Translations of the ladder, one of them empty: it is the ladder backwards."""
    targets = [*reversed(ladder[1:]), ""]
    known = dict(zip(ladder, targets, strict=True))
    monkeypatch.setattr(OurModel, "translate", lambda _, given: [known[each] for each in given])
    return targets


@pytest.mark.parametrize("kind", Kind)
def test_a_word_asks_where_it_is_read_and_in_cross_attention_where_it_is_predicted(
    ours: OurModel, ladder: list[str], translated: list[str], kind: Kind
):
    found = hb.attention(ours, ladder, kind=str(kind))
    tokens = hb.attention(ours, ladder, units="tokens", kind=kind)
    for sentence, target, each, pieces in zip(ladder, translated, found, tokens, strict=True):
        weights = weights_of(ours, sentence, kind, None if kind is Kind.ENCODER else target)
        predicted, names = ours.spans(target, True), tuple(ours.pieces(target, True))
        source = words_between_spaces(sentence), ours.spans(sentence)
        asks = words_between_spaces(target), predicted
        sides = {Kind.ENCODER: (source, source), Kind.CROSS: (asks, source)}
        if kind is Kind.DECODER:
            read, names = (asks[0], [None, *predicted[:-1]]), (module.START, *names[:-1])
            sides[kind] = read, read
        np.testing.assert_allclose(each.weights, by_hand(weights, *sides[kind]), **CLOSE)
        np.testing.assert_allclose(pieces.weights, weights, **CLOSE)
        own = (sentence, tuple(ours.pieces(sentence))) if kind is Kind.ENCODER else (target, names)
        assert (each.words, pieces.words) == (tuple(own[0].split()), own[1])
        looked = sentence if kind is Kind.CROSS else own[0]
        assert each.keys == tuple(looked.split()) and each.kind is kind
        assert (pieces.pieces == 1).all()


def test_a_decoder_alone_asks_where_it_predicts(sample: Text, tmp_path: Path):
    sentences = [each for each in sample.sentences[:9] if len(each.split()) < 40]
    save(gpt2(), sentences, tmp_path)
    model = hb.load(tmp_path)
    for each, sentence in zip(hb.attention(model, sentences), sentences, strict=True):
        side = module._tree(sentence).words, model.spans(sentence)
        weights = weights_of(model, sentence, Kind.DECODER)
        np.testing.assert_allclose(each.weights, by_hand(weights, side, side), **CLOSE)
        assert each.kind is Kind.DECODER and not np.triu(each.weights, 1).any()
    with refused("no encoder"):
        hb.answers(model, sample.trees[:2])


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("They don't know, do they?", "They|don't|know|,|do|they|?"),
        ("It’s 1,000.5 km—a (well-known) state…", "It’s|1,000.5|km|—|a|(|well|-|known|)|state|…"),
        ("我爱你。Hello世界", "我|爱|你|。|Hello|世|界"),
        ("cafe\u0301 हिन्दी में", "cafe\u0301|हिन्दी|में"),
        ("10% of $3.14 👍🏽!", "10|%|of|$|3.14|👍🏽|!"),
    ],
)
def test_words_of_a_plain_sentence(ours: OurModel, sentence: str, words: str):
    assert hb.attention(ours, sentence).words == tuple(words.split("|"))


def test_what_cannot_be_attended_to_is_refused(ours: OurModel):
    wrong = ("", {}), (["One.", " "], {"units": "tokens"}), ([], {})
    for words, asked in (*wrong, ("One.", {"units": "letters"}), ("One.", {"kind": "self"})):
        with refused():
            hb.attention(ours, words, **asked)
    with refused():
        hb.attention(ours, "One sentence.")["L3H1"]


@settings(max_examples=40)
@given(st.text(max_size=40))
def test_no_letter_or_sign_is_lost(sentence: str):
    tree = module._tree(sentence)
    kept = [at for start, end in tree.words for at in range(start, end)]
    assert len(kept) == len(set(kept))
    seen = {at for at, each in enumerate(sentence) if unicodedata.category(each)[0] in "LMNPS"}
    assert seen <= set(kept)
    assert all({unicodedata.category(each)[0] for each in form} - {"Z"} for form in tree.forms)


def test_a_model_in_training_is_looked_at_without_dropout_and_goes_on(ours: OurModel):
    torch.manual_seed(1)
    network = Transformer(replace(ours.network.config, dropout=0.5)).train()
    dropping = replace(ours, network=network)
    found = [hb.attention(dropping, "One more sentence.").weights for _ in range(2)]
    assert (found[0] == found[1]).all() and network.training and network.encoder[0].training
    assert all(block.record is None for _, _, block in network.attentions())


def test_attention_is_read_where_it_was_asked_for(ours: OurModel, ladder: list[str]):
    own = hb.attention(ours, ladder)
    before = own[3].weights
    with hb.close(ours, "L1H2"):
        silent = hb.attention(ours, ladder)
        inside = silent[3].weights
        with refused():
            own[3]
    assert not np.allclose(inside[1], before[1]) and np.allclose(inside[0], before[0])
    with refused():
        list(silent)
    kept = [hb.attention(null, ladder) for null in hb.nulls(ours, 1)]
    with refused():
        kept[0][3]
    assert (own[3].weights == before).all()


def test_heads_that_a_pruned_layer_lacks_are_missing(ours: OurModel, ladder: list[str]):
    heads = named(ours.network, ["L1H1", "L1H2", "L2H2"])
    with closed(ours.network, heads):
        pruned = replace(ours, network=cut_out(ours.network))
        gated = hb.attention(ours, ladder[3])
    found = hb.attention(pruned, ladder[3])
    np.testing.assert_allclose(found["L2H1"], gated["L2H1"], **CLOSE)
    assert np.isnan(found.weights[0]).all() and found.weights.shape[:2] == (2, 1)
