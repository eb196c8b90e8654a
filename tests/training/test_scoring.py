"""BLEU by hand, translations in their order, and each sentence's loss."""

import pytest
import torch

from headbook.models.decoding import Search, translate, translate_corpus
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, collate
from headbook.text.subwords import Subwords
from headbook.training.scoring import bleu, losses, nats

SENTENCES = ["a dog runs", "the small dog sees a cat", "cats", "a cat runs and the dog sleeps", "x"]


def test_bleu_by_hand():
    """Six words: 5/6 words, 3/5 pairs, 2/4 triples, 1/3 quadruples right, no length penalty."""
    score = bleu(["the cat sat on the mat"], ["the cat lay on the mat"])
    precisions = 5 / 6 * 3 / 5 * 1 / 4 * (0.5 / 3)
    # No quadruple is right: sacrebleu's exponential smoothing counts half a one.
    assert score.score == pytest.approx(100 * precisions**0.25)
    assert {"case:mixed", "tok:13a", "nrefs:1", "bs:1000"} <= set(score.signature.split("|"))


def test_case_counts_only_where_it_is_compared():
    written = [sentence.upper() for sentence in SENTENCES]
    assert bleu(written, SENTENCES, lowercase=True).score == pytest.approx(100)
    assert bleu(written, SENTENCES).score < 50


@pytest.mark.parametrize("beam", [1, 3])
def test_translations_come_in_the_order_of_their_sources(beam: int):
    subwords, search = Subwords.train(SENTENCES, 60), Search(beam=beam, longest=0.5)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(len(subwords), len(subwords), 1, 1, 16, 16, 2)).eval()
    encoded = subwords.encode(SENTENCES)
    alone = [subwords.decode(translate(model, torch.tensor([row]), search)[0]) for row in encoded]
    assert len(set(alone)) > 1
    # 20 tokens a batch: several batches, sorted by length, so the order must be put back.
    assert translate_corpus(model.train(), encoded, subwords, search, tokens=20) == alone


@torch.no_grad()
def test_losses_are_each_sentence_s_own_in_the_order_of_the_pairs():
    """Whatever it is batched with: ragged, and one as short as can be."""
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(20, 20, 1, 1, 16, 32, 2)).eval()
    pairs = [([5] * n + [EOS], [6 + n % 7] * n + [EOS]) for n in (9, 0, 3, 33, 1, 9)]
    sums, tokens = losses(model, pairs, 40)
    assert tokens.tolist() == [len(target) for _, target in pairs]
    for pair, own in zip(pairs, sums.tolist(), strict=True):
        batch = collate([pair], [0])
        logs = model(batch)[0].log_softmax(-1)
        alone = -logs.gather(1, batch.target_out[0][:, None]).sum()
        assert own == pytest.approx(float(alone), rel=1e-5)
    assert nats(model, pairs, 40) == float(sums.sum()) / 61
