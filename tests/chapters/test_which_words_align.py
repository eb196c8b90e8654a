"""Page 53: links laid on a model's tokens, tables of links, and the students on planted links."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from headbook.chapters.results import published
from headbook.chapters.seeing import _parallel, which_words_align
from headbook.chapters.seeing._parallel import Parallel, as_table, from_table, same, same_links
from headbook.chapters.seeing.which_words_align import (
    DIAGONAL,
    Parameters,
    beside,
    compute,
    errors,
)
from headbook.corpora.subwords import Subwords
from headbook.corpora.word_links import WordLinks
from headbook.looking.load import load
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.store import Store
from headbook.training import checkpoint
from headbook.trees import ROOT, Tree
from headbook.types import UserError


def tree(words: list[str], tags: list[str]) -> Tree:
    text, spans = " ".join(words), []
    for word in words:
        start = spans[-1][1] + 1 if spans else 0
        spans.append((start, start + len(word)))
    heads = (ROOT, *[0] * (len(words) - 1))
    return Tree(text, tuple(spans), heads, ("dep",) * len(words), tuple(tags))


def sentence(number: int) -> tuple[Tree, Tree, WordLinks]:
    """`Anna saw 3 dogs .`, with another number each time; `dogs` is linked in one of two only."""
    tags = ["PROPN", "VERB", "NUM", "NOUN", "PUNCT"]
    english = tree(["Anna", "saw", str(number), "dogs", "."], tags)
    foreign = tree(["Anna", "viu", str(number), "cachorros", "."], tags)
    sure = frozenset((at, at) for at in range(5))
    return (
        english,
        foreign,
        WordLinks(sure - {(3, 3)}, sure) if number % 2 else WordLinks(sure, sure),
    )


@pytest.fixture
def text() -> Parallel:
    english, foreign, links = zip(*(sentence(number) for number in range(20, 60)), strict=True)
    return Parallel(("en", "pt"), english, foreign, links)


def test_links_survive_their_table(text: Parallel) -> None:
    assert from_table(as_table(text.links)) == list(text.links)
    assert from_table(pd.DataFrame({"sure": [None], "possible": ["0-1"]})) == [
        WordLinks(frozenset(), frozenset({(0, 1)}))
    ]


def test_words_written_alike_are_paired_once(text: Parallel) -> None:
    english, foreign, _ = sentence(7)
    assert same(english, foreign, "NUM").nonzero().tolist() == [[2, 2]]
    assert not same(english, foreign, "NOUN").any()
    twice = tree(["7", "7"], ["NUM", "NUM"])
    assert not same(twice, foreign, "NUM").any()
    assert same_links(text, "NUM") == 1


def test_a_pair_lies_on_the_model_s_tokens(text: Parallel) -> None:
    model = load("firefox-en-pt")
    for pair, english, foreign in zip(text.on(model), text.sources, text.targets, strict=True):
        assert len(pair.source) == len(model.pieces(english.text))
        assert len(pair.target) == len(model.pieces(foreign.text, target=True))
        assert set(pair.target.tolist()) == {-1, *range(5)}
        assert pair.sure.sum() == len(text.links[0].sure) or pair.sure.sum() == 4
        assert (pair.sure <= pair.possible).all()


def test_turning_it_twice_changes_nothing(text: Parallel) -> None:
    assert text.turned().turned() == Parallel(text.languages, text.sources, text.targets,
                                              list(text.links))  # fmt: skip
    assert text.turned().sources == text.targets


def test_the_head_that_was_trained_to_align_finds_word_for_word_links(
    text: Parallel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(which_words_align, "parallel", lambda other, links: text)
    monkeypatch.setattr(which_words_align, "published_links", lambda page: None)
    tables = compute(Parameters(models=("firefox-en-pt", "firefox-pt-en")), Store.default())
    best = tables["best"].set_index(["model", "matrix", "step"])["error"]
    assert len(tables["heads"]) == 2 * (4 * 16 + 4 * 2)
    for model in ("firefox-en-pt", "firefox-pt-en"):
        assert best[model, "weights", "output"] < 0.1
        assert best[model, "random head", "output"] > 0.5
        # here the order alone is right, which the measure has to see
        assert best[model, DIAGONAL, "output"] < 0.35


@pytest.fixture
def ours(text: Parallel, tmp_path: Path) -> str:
    """A folder with a translation model of this package, to German, one head per layer."""
    for name, side in (("source.json", text.sources), ("target.json", text.targets)):
        subwords = Subwords.train([tree.text for tree in side], 90)
        subwords.save(tmp_path / name)
    torch.manual_seed(0)
    config = TransformerConfig(len(subwords), len(subwords), 2, 2, 16, 24, 1, dropout=0.0)
    checkpoint.save_model(Transformer(config), tmp_path / "best.safetensors")
    (tmp_path / "run.json").write_text('{"ingredients": {"config": {"corpus": "tatoeba-de"}}}')
    return str(tmp_path)


def test_a_layer_of_one_head_aligns_as_the_head_does_in_a_model_of_ours(
    text: Parallel, ours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    languages = []
    monkeypatch.setattr(
        which_words_align, "parallel", lambda other, _: languages.append(other) or text
    )
    monkeypatch.setattr(which_words_align, "aligned", lambda *_: text.links)
    tables = compute(Parameters(models=(ours,), aligner="eflomal", nulls=1), Store.default())
    heads = tables["heads"].set_index(["matrix", "step", "layer", "head"])["error"]
    assert languages == ["de"] and len(heads) == 2 * 4 * 2 + 2 and heads.between(0, 1).all()
    for matrix in ("weights", "norms"):
        assert heads[matrix].equals(heads[f"{matrix} of a layer"])
    assert not heads["weights"].equals(heads["norms"])
    assert set(tables["claims"]["model"]) == {ours}


def test_a_model_of_ours_joins_the_table_with_its_updates() -> None:
    """And the work's values stay with the first model."""
    tables = published("53_which_words_align", "released").tables
    added = tables["best"].query("model == 'firefox-pt-en'").assign(model="mixture-fr-256-masked")
    more = {**tables, "best": pd.concat([tables["best"], added], ignore_index=True)}
    for each in (tables, more):
        assert set(errors(each).dropna(subset="paper")["model"]) == {"Firefox en→pt"}
    made = {"model": "mixture-fr-256-masked", "weights": {"updates": 512, "planned": 6000}}
    name = "Our masked encoder, 512 of 6,000 updates"
    before, after = beside(tables), beside(more, [{"given": {}}, made])
    assert list(after) == [*before, name] and before.equals(after.iloc[:, :-1])
    assert after[name].tolist() == before["Firefox pt→en"].tolist()
    assert before["Kobayashi et al., de→en"].iloc[0] == "48\N{NO-BREAK SPACE}%"


def test_what_cannot_be_aligned_is_one_line() -> None:
    for wrong, said in (
        (Parameters(aligner="people"), "use published or eflomal"),
        (Parameters(models=("minilm",)), "does not translate"),
    ):
        with pytest.raises(UserError, match=said):
            compute(wrong, Store.default())
    with pytest.raises(UserError, match="no parallel treebank"):
        _parallel.parallel("xx")
