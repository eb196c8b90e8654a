"""Loading by name, folder or id, and one line for what cannot be loaded."""

import shutil
from pathlib import Path

import pytest

import headbook as hb
from headbook.looking.ours import OurModel
from headbook.looking.text import Text
from headbook.models.loaded import Loaded
from headbook.types import UserError


def one_line(name: str | Path, *said: str) -> None:
    with pytest.raises(UserError) as caught:
        hb.load(name)
    assert "\n" not in str(caught.value)
    for each in said:
        assert each in str(caught.value)


def test_a_folder_of_ours_is_a_loaded_model(run_folder: Path, sample: Text):
    model = hb.load(run_folder)
    assert isinstance(model, Loaded) and isinstance(model, OurModel)
    assert model.languages == ("en", "unknown") and "headbook" in model.origin
    sentence = sample.sentences[0]
    spans = model.spans(sentence)
    (batch,) = model.batches([sentence])
    assert len(spans) == len(model.pieces(sentence)) == batch.source.shape[1]
    assert spans[-1] is None and None not in spans[:-1]
    assert batch.target_mask.sum() == 1  # the shortest target there is
    (translation,) = model.translate(["a cat"])
    (batch,) = model.batches([sentence], [translation])
    assert model.losses(batch).shape == (int(batch.target_mask.sum()),)


def test_batches_hold_every_sentence_once(ours: OurModel, sample: Text):
    numbers = [n for batch in ours.batches(sample.sentences) for n in batch.sentences.tolist()]
    assert sorted(numbers) == list(range(200))


def test_the_run_tells_corpus_and_languages(run_folder: Path, tmp_path: Path):
    folder = shutil.copytree(run_folder, tmp_path / "run")
    (folder / "run.json").write_text('{"ingredients": {"config": {"corpus": "multi30k-de"}}}')
    model = hb.load(folder)
    assert model.languages == ("en", "de") and "multi30k-de" in model.origin
    (folder / "run.json").write_text("[1")
    assert hb.load(folder).languages == ("en", "unknown")


@pytest.mark.parametrize("name", ["source.json", "target.json"])
def test_a_run_without_subwords_is_named(run_folder: Path, tmp_path: Path, name: str):
    folder = shutil.copytree(run_folder, tmp_path / "run")
    (folder / name).unlink()
    one_line(folder, name, "finished run")
    (folder / name).write_text("{")
    one_line(folder, name, "not a saved tokenizer")


def test_damaged_or_missing_weights_are_named(run_folder: Path, tmp_path: Path):
    folder = shutil.copytree(run_folder, tmp_path / "run")
    weights = folder / "best.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    one_line(folder, "best.safetensors", "no checkpoint")
    weights.unlink()
    (folder / "run.json").write_text("{}")
    one_line(folder, "best.safetensors")


def test_what_is_no_model_is_said_in_one_line(tmp_path: Path):
    one_line(tmp_path, "holds no model", "config.json")
    file = tmp_path / "model.bin"
    file.write_bytes(b"")
    one_line(file, "is a file")
    one_line(tmp_path, str(file))  # an empty Firefox model
    one_line(tmp_path / "absent", "no such folder")


def test_a_misspelt_name_finds_the_catalogue(monkeypatch: pytest.MonkeyPatch):
    def unknown(name: object) -> None:
        raise UserError(f"{name}: no such model")

    monkeypatch.setattr("headbook.released.hugging_face.load", unknown)
    one_line("firefox-en-pr", "no such model", "did you mean", "firefox-en-pt")
    one_line("nothing/alike-at-all", "no such model")
