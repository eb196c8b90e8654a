"""A masked language model of ours: loaded, on the way, and as published weights."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch.nn.functional import cross_entropy

import headbook as hb
from headbook.artefacts import catalogue
from headbook.artefacts.texts import Text
from headbook.corpora.pairs import Pairs
from headbook.corpora.readers import ParallelCorpus
from headbook.corpora.subwords import Subwords
from headbook.looking.load import of_the_book
from headbook.looking.on_the_way import OnTheWay
from headbook.looking.ours import HIDDEN, OurEncoder, RunFolder
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.publishing.weights import publish_weights
from headbook.runs.store import Store
from headbook.training import checkpoint
from headbook.training.loop import STATE, snapshot_name
from headbook.types import UserError

NAME = "mixture-fr-256-masked"
PLANNED = catalogue.run(NAME).training.updates


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


@pytest.fixture
def under_way(tmp_path: Path, subwords: Subwords, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A training of the catalogue, whose corpus is not read, with two snapshots and no end yet."""
    nothing = Pairs((), ())
    corpus = ParallelCorpus("mixture-fr", "fr", nothing, nothing, {}, "0" * 8, Counter())
    for module in ("artefacts.encoders", "looking.on_the_way"):
        monkeypatch.setattr(f"headbook.{module}.corpus_of", lambda *_: corpus)
    for module in ("artefacts.catalogue", "publishing.weights"):
        monkeypatch.setattr(f"headbook.{module}.weights_folder", lambda name: tmp_path / name)
    store = Store(tmp_path / "runs")
    run = catalogue.run(NAME)
    asked = run.ingredients()
    folder = store.folder(asked).with_suffix(".partial")
    folder.mkdir(parents=True)
    subwords.save(folder / "source.json")
    for update in (64, 91):
        saved(folder, subwords, update, snapshot_name(update))
    model = saved(folder, subwords, 100, "aside.safetensors")
    rows = [{"update": update, "valid_loss_nats": 1.0} for update in (50, 100)]
    note = {"update": 100, "curve": rows}
    checkpoint.save_state(folder / STATE, model, torch.optim.Adam(model.parameters()), note)
    return store


def test_a_training_under_way_is_read_as_far_as_it_is(under_way: Store):
    training = OnTheWay.of(NAME, under_way)
    assert training.updates == [0, 64, 91] and training.planned == PLANNED
    folder = training.trained.folder
    for update in (64, 91):
        kept = checkpoint.load_transformer(folder / snapshot_name(update))
        there = training.at(update)
        assert there.name == NAME
        for one, two in zip(kept.parameters(), there.network.parameters(), strict=True):
            assert torch.equal(one, two)
    with pytest.raises(UserError, match=r"update 65.*64, 91"):
        training.at(65)
    with pytest.raises(UserError, match="headbook train"):
        OnTheWay.of(NAME, Store(under_way.root / "elsewhere"))


def test_published_weights_give_the_tables_of_the_model_they_come_from(
    under_way: Store, sample: Text, monkeypatch: pytest.MonkeyPatch
):
    store = under_way
    folder = publish_weights(NAME, store, 91)
    assert pd.read_csv(folder / "curve.csv")["update"].tolist() == [50]
    made = json.loads((folder / "run.json").read_text())
    assert made["updates"] == 91 and made["planned"] == PLANNED
    assert made["sha256"] == hashlib.sha256((folder / "best.safetensors").read_bytes()).hexdigest()
    whole = (store.under_way(OnTheWay.of(NAME, store).asked) / snapshot_name(91)).stat().st_size
    assert (folder / "best.safetensors").stat().st_size < 0.6 * whole
    monkeypatch.setenv("HEADBOOK_RUNS", str(store.root / "elsewhere"))
    loaded = hb.load(NAME)
    assert of_the_book(NAME) == {each: made[each] for each in ("updates", "planned", "sha256")}
    assert of_the_book("minilm") == of_the_book("msdocs-ru-256") == {}
    with monkeypatch.context() as trained:
        trained.setattr("headbook.looking.load.folder_of", lambda *_: folder)
        assert of_the_book(NAME) == {}, "a finished training is loaded instead"
    assert isinstance(loaded, OurEncoder) and "mixture-fr" in loaded.origin
    again = RunFolder(folder).model()
    tables = [hb.measure(each, sample, nulls=0, importance=False, progress=False)
              for each in (loaded, replaced(OnTheWay.of(NAME, store).at(91)))]  # fmt: skip
    columns = ["confidence", "own", "neighbour"]
    assert again.network.config == loaded.network.config
    assert tables[0][columns].equals(tables[1][columns])


def test_of_a_training_under_way_the_checkpoint_is_published(under_way: Store):
    """What a machine without it goes on from, and not the snapshot before."""
    folder = publish_weights(NAME, under_way)
    training = OnTheWay.of(NAME, under_way)
    kept = checkpoint.load_transformer(training.trained.folder / "aside.safetensors")
    published = checkpoint.load_transformer(folder / "best.safetensors")
    for one, two in zip(kept.parameters(), published.parameters(), strict=True):
        assert torch.equal(one.bfloat16().float(), two)
    assert json.loads((folder / "run.json").read_text())["updates"] == 100
    assert pd.read_csv(folder / "curve.csv")["update"].tolist() == [50, 100]


def replaced(model: OurEncoder) -> OurEncoder:
    """With weights as 16 bits hold them."""
    for weight in model.network.parameters():
        weight.data = weight.data.bfloat16().float()
    return model
