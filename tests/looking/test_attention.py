"""Attention between words and between tokens, against hand counts and one sentence at a time."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from refusing import refused
from tiny_hugging import gpt2, save

import headbook as hb
from headbook.looking.attention import START
from headbook.looking.ours import OurModel
from headbook.looking.text import Text
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.text.trees import ROOT, Tree
from headbook.types import Kind

LENGTHS = (33, 1, 129, 9, 2)
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def ladder(sample: Text) -> list[str]:
    """One sentence of each length in words, the longest in the middle."""
    words = [word for sentence in sample.sentences for word in sentence.split() if word.isalpha()]
    return [" ".join(words[7 * length : 8 * length]) for length in LENGTHS]


def weights_of(model: Loaded, sentence: str, kind: Kind, target: str | None = None) -> np.ndarray:
    (batch,) = model.batches([sentence], None if target is None else [target])
    with torch.inference_mode(), capture(model.network, {Point.WEIGHTS}) as tape:
        model.network(batch)
    return np.stack([layer[0].numpy() for layer in tape[kind, Point.WEIGHTS]])


def by_hand(tokens: np.ndarray, *sides: tuple) -> np.ndarray:
    """Means over the tokens of the asking word of sums over those of the other.

    A side is the words' spans and the tokens' spans.
    """
    owned = []
    for words, spans in sides:
        own = [each is not None and each[0] in range(*word) for word in words for each in spans]
        owned.append(np.reshape(own, (len(words), len(spans))))
    means = owned[0] / owned[0].sum(1, keepdims=True).clip(1)
    return means @ tokens @ owned[1].T


def words_between_spaces(sentence: str) -> list[tuple[int, int]]:
    return [word.span() for word in re.finditer(r"\S+", sentence)]


def test_words_of_two_tokens_by_hand(with_weights: Callable):
    text = "New York is big"
    tenths = [1, 2, 3, 4, 0], [5, 1, 1, 1, 2], [2, 3, 1, 1, 3], [0, 0, 10, 0, 0], [0, 0, 0, 0, 10]
    tokens = torch.tensor(tenths) / 10
    model = with_weights(torch.stack([tokens, tokens.T])[None])
    # "is" is cut in two where the model has one token: the second part has none of its own
    tree = Tree(text, ((0, 8), (9, 10), (10, 11), (12, 15)), (ROOT,) * 4, ("",) * 4)
    found = hb.attention(model, tree)
    expected = [[0.45, 0.2, 0, 0.25], [0.5, 0.1, 0, 0.1], [0, 0, 0, 0], [0, 1, 0, 0]]
    np.testing.assert_allclose(found["L1H1"], expected, **CLOSE)
    turned = [[0.45, 0.25, 0, 0], [0.4, 0.1, 0, 1], [0, 0, 0, 0], [0.5, 0.1, 0, 0]]
    np.testing.assert_allclose(found["L1H2"], turned, **CLOSE)
    assert found.words == found.keys == ("New York", "i", "s", "big")
    assert found.pieces.tolist() == [2, 1, 0, 1]


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
            read, names = (asks[0], [None, *predicted[:-1]]), (START, *names[:-1])
            sides[kind] = read, read
        np.testing.assert_allclose(each.weights, by_hand(weights, *sides[kind]), **CLOSE)
        np.testing.assert_allclose(pieces.weights, weights, **CLOSE)
        own = (sentence, tuple(ours.pieces(sentence))) if kind is Kind.ENCODER else (target, names)
        assert (each.words, pieces.words) == (tuple(own[0].split()), own[1])
        looked = sentence if kind is Kind.CROSS else own[0]
        assert each.keys == tuple(looked.split()) and each.kind is kind
        assert (pieces.pieces == 1).all()


def test_a_decoder_alone_asks_where_it_predicts(ladder: list[str], tmp_path: Path):
    sentences = [each for each in ladder if len(each.split()) < 40]
    save(gpt2(), sentences, tmp_path)
    model = hb.load(tmp_path)
    for each, sentence in zip(hb.attention(model, sentences), sentences, strict=True):
        side = words_between_spaces(sentence), model.spans(sentence)
        weights = weights_of(model, sentence, Kind.DECODER)
        np.testing.assert_allclose(each.weights, by_hand(weights, side, side), **CLOSE)
        assert each.kind is Kind.DECODER and not np.triu(each.weights, 1).any()


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


def test_a_silent_head_changes_the_layers_above(ours: OurModel, ladder: list[str]):
    before = hb.attention(ours, ladder)[3].weights
    with hb.close(ours, "L1H2"):
        inside = hb.attention(ours, ladder)[3].weights
    assert not np.allclose(inside[1], before[1]) and np.allclose(inside[0], before[0])


def test_heads_that_a_pruned_layer_lacks_are_missing(ours: OurModel, ladder: list[str]):
    found = hb.attention(hb.prune(ours, "L2H1"), ladder[3])
    whole = hb.attention(ours, ladder[3])
    np.testing.assert_allclose(found.weights[0], whole.weights[0], **CLOSE)
    assert np.isnan(found["L2H2"]).all() and not np.isnan(found["L2H1"]).any()


def test_a_text_is_a_list(ours: OurModel):
    text = hb.text("ewt-sample", first=8)
    found = hb.attention(ours, text)
    assert [each.words for each in found] == [tree.forms for tree in text.trees]
    alone = hb.attention(ours, text.trees[-1])
    np.testing.assert_allclose(found[-1].weights, alone.weights, **CLOSE)
