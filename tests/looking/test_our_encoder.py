"""A masked language model of ours: loaded and measured."""

from pathlib import Path

import pytest
import torch
from refusing import refuses
from torch.nn.functional import cross_entropy

import headbook as hb
from headbook.looking.ours import HIDDEN, OurEncoder
from headbook.looking.text import Text
from headbook.models import checkpoint
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.subwords import Subwords


@pytest.fixture
def encoder(tmp_path: Path, subwords: Subwords) -> OurEncoder:
    return loaded(tmp_path, subwords, 2, 0)


def loaded(folder: Path, subwords: Subwords, encoder: int, decoder: int) -> OurEncoder:
    torch.manual_seed(0)
    ids = len(subwords) + 1
    config = TransformerConfig(ids, ids, encoder, decoder, 16, 24, 2, dropout=0.0)
    checkpoint.save_model(Transformer(config), folder / "best.safetensors")
    subwords.save(folder / "source.json")
    return hb.load(folder)


def test_the_same_seventh_of_a_sentence_is_hidden_in_any_batch(encoder: OurEncoder, sample: Text):
    found = []
    for tokens in (64, 4096):
        found.append({})
        for batch in encoder.batches(sample.sentences[:40], tokens=tokens):
            hidden, text = encoder.predicted(batch), batch.source_mask & ~batch.source_boundary
            assert not (hidden & ~text).any() and hidden.any(1).all()
            assert ((hidden.sum(1) - text.sum(1) / HIDDEN).abs() < 1).all()
            for number, row in zip(batch.sentences.tolist(), hidden, strict=True):
                found[-1][number] = row.nonzero().flatten().tolist()
    assert found[0] == found[1]


def test_the_loss_is_of_tokens_that_the_model_does_not_see(encoder: OurEncoder, sample: Text):
    (batch,) = encoder.batches(sample.sentences[3:4])
    hidden = encoder.predicted(batch)
    seen = batch.source.clone()
    seen[hidden] = encoder.unknown
    by_hand = cross_entropy(encoder.network.logits(encoder.network.encode(seen)[0])[hidden],
                            batch.source[hidden], reduction="none")  # fmt: skip
    assert torch.equal(encoder.losses(batch), by_hand)


def test_what_it_is_not_is_said_in_one_line(tmp_path: Path, subwords: Subwords, encoder):
    refuses(lambda: encoder.translate(["a"]), "translates nothing")
    refuses(lambda: loaded(tmp_path, subwords, 0, 2), "decoder alone")
