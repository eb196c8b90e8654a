"""A masked language model of ours: loaded and measured."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

import headbook as hb
from headbook.looking.ours import HIDDEN, OurEncoder
from headbook.looking.text import Text
from headbook.models import checkpoint
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.subwords import Subwords
from headbook.types import UserError


def saved(folder: Path, subwords: Subwords, seed: int, name: str, decoder: int = 0) -> Transformer:
    torch.manual_seed(seed)
    ids = len(subwords) + 1
    encoder = 0 if decoder else 2
    config = TransformerConfig(ids, ids, encoder, decoder, 16, 24, 2, dropout=0.0)
    model = Transformer(config)
    checkpoint.save_model(model, folder / name)
    return model


@pytest.fixture(scope="module")
def subwords(sample: Text) -> Subwords:
    return Subwords.train(sample.sentences, 700)


@pytest.fixture
def encoder(tmp_path: Path, subwords: Subwords) -> OurEncoder:
    subwords.save(tmp_path / "source.json")
    saved(tmp_path, subwords, 0, "best.safetensors")
    return hb.load(tmp_path)


def test_every_seventh_token_is_hidden_and_nothing_else_is_predicted(
    encoder: OurEncoder, sample: Text
):
    for batch in encoder.batches(sample.sentences, tokens=512):
        hidden = encoder.predicted(batch)
        text = batch.source_mask & ~batch.source_boundary
        assert not (hidden & ~text).any()
        count = text.sum(1)
        assert (hidden.sum(1) >= (count // HIDDEN).clamp(min=1)).all()
        assert (hidden.sum(1) <= count // HIDDEN + 1).all()


def test_the_loss_is_of_tokens_that_the_model_does_not_see(encoder: OurEncoder, sample: Text):
    (batch,) = encoder.batches(sample.sentences[3:4])
    hidden = encoder.predicted(batch)
    seen = batch.source.clone()
    seen[hidden] = encoder.unknown
    by_hand = cross_entropy(encoder.network.logits(encoder.network.encode(seen)[0])[hidden],
                            batch.source[hidden], reduction="none")  # fmt: skip
    assert torch.equal(encoder.losses(batch), by_hand)
    shown = encoder.network(batch)[hidden]  # the planted fault: nothing is hidden
    assert not torch.allclose(cross_entropy(shown, batch.source[hidden], reduction="none"), by_hand)


def test_a_sentence_loses_the_same_tokens_in_any_batch(encoder: OurEncoder, sample: Text):
    def places(tokens: int) -> dict[int, list[int]]:
        return {
            number: row.nonzero().flatten().tolist()
            for batch in encoder.batches(sample.sentences[:40], tokens=tokens)
            for number, row in zip(batch.sentences.tolist(), encoder.predicted(batch), strict=True)
        }

    assert places(64) == places(4096)


def test_every_head_is_measured_with_its_importance(encoder: OurEncoder, sample: Text):
    table = hb.measure(encoder, sample, nulls=0, ablated=8, progress=False)
    assert len(table) == 4 and set(table["kind"]) == {"encoder"}
    assert table["importance_gradient"].gt(0).all() and table["importance_ablation"].notna().all()
    assert "nats" in table.attrs["headbook"].importance


def test_a_decoder_alone_is_refused_in_one_line(tmp_path: Path, subwords: Subwords):
    subwords.save(tmp_path / "source.json")
    saved(tmp_path, subwords, 0, "best.safetensors", decoder=2)
    with pytest.raises(UserError, match="decoder alone"):
        hb.load(tmp_path)


def test_it_translates_nothing(encoder: OurEncoder):
    with pytest.raises(UserError, match="translates nothing"):
        encoder.translate(["a"])
