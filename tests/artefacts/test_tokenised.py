"""The stage `tokenised`: learnt once for all models of a corpus, and what each would encode."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from headbook.artefacts import tokenised as stage
from headbook.artefacts.model import encode
from headbook.artefacts.tokenised import TOKENISED, asked_tokenised, tokenised
from headbook.corpora.readers import ParallelCorpus, load
from headbook.corpora.subwords import Subwords
from headbook.runs.store import Store

WORDS = ("dog", "cat", "sister", "sees", "likes", "red", "ball", "tree")


@pytest.fixture
def corpus(tmp_path: Path) -> ParallelCorpus:
    """Ragged sentences, translated as themselves backwards."""
    rows = [" ".join(WORDS[at % 8 : at % 8 + at % 5 + 1]) for at in range(40)]
    for part, lines in {"train": rows, "valid": rows[:1], "test": rows[1:2]}.items():
        (tmp_path / f"{part}.en").write_text("".join(f"{line}\n" for line in lines))
        (tmp_path / f"{part}.xx").write_text("".join(f"{line[::-1]}\n" for line in lines))
    return load(str(tmp_path))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def test_ids_are_those_of_the_subwords_beside_them(
    corpus: ParallelCorpus, store: Store, tmp_path: Path
):
    made = tokenised(corpus, 40, store)
    made.copy_subwords(tmp_path)
    source, target = (Subwords.load(tmp_path / f"{side}.json") for side in ("source", "target"))
    assert made.training_pairs == encode(source, target, corpus.train)
    assert len({len(row) for row, _ in made.training_pairs}) > 2
    learnt = Subwords.train(corpus.train.source, 40)
    assert source.pieces(range(len(source))) == learnt.pieces(range(len(learnt)))


def test_it_is_learnt_once_for_a_vocabulary(
    corpus: ParallelCorpus, store: Store, monkeypatch: pytest.MonkeyPatch
):
    first = tokenised(corpus, 40, store)
    other = tokenised(corpus, 30, store)
    assert first.folder != other.folder
    monkeypatch.delattr(Subwords, "train")
    assert tokenised(corpus, 40, store) == first
    assert store.has(asked_tokenised(corpus, 30)) and TOKENISED.version == 1


def test_ids_take_two_bytes_and_four_where_they_must(corpus: ParallelCorpus, store: Store):
    kept = load_file(tokenised(corpus, 40, store).folder / stage.IDS)
    assert {each.dtype for each in kept.values()} == {torch.int16}
    assert stage._narrow([2**15 - 1]).dtype == torch.int16
    wide = stage._narrow([5, 2**15, 70_000])
    assert wide.dtype == torch.int32 and wide.tolist() == [5, 2**15, 70_000]
    assert stage._narrow([]).tolist() == []


def test_one_side_may_be_copied_alone(corpus: ParallelCorpus, store: Store, tmp_path: Path):
    tokenised(corpus, 40, store).copy_subwords(tmp_path, ("source",))
    assert [path.name for path in tmp_path.glob("*.json")] == ["source.json"]
