"""Models by name: the key they were stored under, what they learn from, and faults of the file."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from refusing import refuses
from small import masked_run, translation_run

from headbook import paths, recipes
from headbook.corpora.pairs import Pairs
from headbook.recipes import catalogue, recipe, select
from headbook.runs.canonical import plain
from headbook.text.batches import EOS
from headbook.text.subwords import Subwords
from headbook.training import models
from headbook.training.models import TRAINING, initial, run

ENTRY = """
[base]
task = "translation"
corpus = "controlled-sov"
size = "smoke"
vocabulary = 60
dropout = 0.1
updates = 4
"""


def test_every_recipe_can_be_trained() -> None:
    for each in catalogue().values():
        config = run(each.name).config(100, 90)
        assert config.width % config.heads == 0 and config.encoder_layers > 0


def test_a_seed_of_ones_own_is_a_name() -> None:
    first, seventh = plain(run("multi30k-de-128")), plain(run("multi30k-de-128-seed7"))
    assert seventh == first | {"training": first["training"] | {"seed": 7}}
    names = select(["{corpus}-512-long", "tatoeba-de-64"])
    assert names[4:6] == ["msdocs-ru-512-long-seed4", "msdocs-de-512-long"] and len(names) == 31
    for wrong in ("multi30k-de-182", "multi30k-de-128-seed", "firefox-en-pt"):
        refuses(partial(recipe, wrong), wrong)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes a text the catalogue."""
    monkeypatch.setattr(paths, "DATA", tmp_path)

    def write(text: str) -> None:
        (tmp_path / "models.toml").write_text(ENTRY + text)
        recipes._read.cache_clear()

    yield write
    recipes._read.cache_clear()


def test_a_family_is_every_combination_of_its_lists(written) -> None:
    written('["{like}-{width}-{beam}"]\nlike = ["base"]\nwidth = [8, 32]\nbeam = [1, 2]\n')
    assert list(catalogue()) == ["base", "base-8-1", "base-8-2", "base-32-1", "base-32-2"]
    wide = run("base-32-2")
    assert (wide.size.width, wide.size.feed_forward, wide.search.beam) == (32, 64, 2)
    assert wide.training.updates == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('like = "nobody"', "nobody"),
        ('like = "base"\ndropuot = 0.1', "dropuot"),
        ('like = "base"\nupdates = 0', "updates is 0"),
        ('task = "translation"\ncorpus = "x"\nupdates = 1', "size"),
    ],
)
def test_a_wrong_entry_is_named(written, text: str, said: str) -> None:
    written(f"[bad]\n{text}\n")
    refuses(lambda: run("bad"), said)


@pytest.fixture(scope="module")
def sides() -> list[Subwords]:
    return [Subwords.train(["the dog sees a cat", "a cat likes the dog"], 60)] * 2


def test_long_pairs_are_left_out_of_training_and_cut_elsewhere(
    sides: list[Subwords], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    wanted = translation_run(tmp_path)
    lines = ("dog", " ".join(["dog"] * 300))
    pairs = Pairs(lines, lines[:1] * 2)
    assert [len(source) for source, _ in wanted.examples(pairs, sides, TRAINING)] == [2]
    monkeypatch.setattr(models, "LONGEST_EVALUATED", 50)
    (_, (cut, _)) = wanted.examples(pairs, sides, "validation")
    assert cut == [*sides[0].encode(lines)[1][:49], EOS]
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("1 pairs over 200") and said[1].startswith("1 lines of validation")


def test_hidden_words_are_those_that_are_asked_for(sides: list[Subwords], tmp_path: Path) -> None:
    """The mask is the one id behind the subwords."""
    wanted, lines = masked_run(tmp_path), ("the dog sees a cat",) * 40
    pairs = wanted.examples(Pairs(lines, lines), sides[:1], TRAINING)
    assert len(pairs) == models.COPIES * 40
    mask = max(token for shown, _ in pairs for token in shown)
    assert mask == len(sides[0]) == wanted.config(mask).source_vocabulary - 1
    assert all(target[at] for shown, target in pairs for at in range(5) if shown[at] == mask)


def test_another_seed_starts_from_another_model(sides: list[Subwords], tmp_path: Path) -> None:
    for name in ("source.json", "target.json"):
        sides[0].save(tmp_path / name)
    base = translation_run(tmp_path)
    other = replace(base, training=replace(base.training, seed=1))
    found = [initial(each, tmp_path).logits.weight for each in (base, base, other)]
    assert torch.equal(*found[:2]) and not torch.equal(*found[1:])
