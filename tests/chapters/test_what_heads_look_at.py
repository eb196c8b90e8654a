"""Page 50: sums over bins of lengths, marks, and a model of our own on a text of a reader's."""

from pathlib import Path

import pytest
import torch

from headbook.chapters.seeing import what_heads_look_at as page
from headbook.chapters.seeing.what_heads_look_at import NORMS, WEIGHTS, Parameters, compute
from headbook.heads.attended import Attended, AttendedWeight
from headbook.heads.collect import collect
from headbook.looking.load import load
from headbook.runs.store import Store
from headbook.types import UserError

SHORT = "Wait, what? It works."
TEXT = f"{SHORT}\nA cat sat on the mat, and the dog (an old one) slept by the door.\n" * 4


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "own.txt").write_text(TEXT, "utf-8")
    parameters = Parameters(models=("minilm",), texts=(str(folder / "own.txt"),), nulls=1)
    return compute(parameters, Store(folder / "store"))


def test_bins_of_lengths_add_up_to_all_sentences(tables, tmp_path: Path) -> None:
    model, sentences = load("minilm"), TEXT.splitlines()
    measure = AttendedWeight([page.punctuation(model, each) for each in sentences], replicates=0)
    collect(model.network, model.batches(sentences), [measure], progress=iter)
    heads = tables["heads"].query("matrix == @WEIGHTS")
    at = list(Attended).index(Attended.PUNCTUATION)
    found = torch.tensor(heads["punctuation"].to_numpy()).reshape(6, 12)
    torch.testing.assert_close(found, measure.compute()[..., at], rtol=1e-5, atol=1e-7)


def test_every_matrix_and_claim_is_there(tables) -> None:
    assert set(tables["layers"]["matrix"]) == {WEIGHTS, NORMS, page.REDRAWN}
    assert len(tables["claims"]) == 6
    assert (tables["lengths"].groupby("quantity")["tokens"].nunique() == 2).all()


def test_marks_of_punctuation_are_found_whatever_the_tokens() -> None:
    for name in ("minilm", "firefox-en-pt"):
        model = load(name)
        marks = page.punctuation(model, "Wait, what?")
        named = zip(model.pieces("Wait, what?"), marks.tolist(), strict=True)
        assert [piece for piece, mark in named if mark] == [",", "?"]


def test_a_text_in_another_language_is_one_line() -> None:
    with pytest.raises(UserError, match="no text given is in it"):
        compute(Parameters(models=("firefox-pt-en",), texts=("ewt-sample",)), Store.default())


def test_the_view_shows_each_model_s_attentions(tables) -> None:
    parameters = Parameters(sentences=30)
    shown = page.shown(parameters, compute(parameters, Store.default()))
    names = ["MiniLM, encoder", "Firefox en→pt, encoder", "Firefox en→pt, cross"]
    by_norm = [f"{name}, norm-weighted" for name in names[:2]]
    listed = shown.alt.rpartition("To choose from: ")[2].split("; ")
    assert [name for name in listed if name not in by_norm] == names
    assert set(listed) == {*names, *by_norm}
