"""Recipes: one description, the keys that stored models have, and a file whose faults are named."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from headbook.chapters.config import Config
from headbook.chapters.profile import PROFILES

from headbook.artefacts import catalogue as catalogues
from headbook.artefacts.catalogue import catalogue, name_of, recipe, run, select
from headbook.artefacts.model import TRAINED
from headbook.artefacts.recipe import Recipe, Sharing, Task
from headbook.models.drop_head import DropHeadSchedule
from headbook.runs.canonical import digest, plain
from headbook.runs.store import Ingredients
from headbook.types import UserError

GOLDEN = json.loads((Path(__file__).parent / "golden_recipes.json").read_text())
"""Digests of the runs as they were when each was first trained: another digest, another key."""
ENTRY = """
[base]
kind = "young"
task = "translation"
corpus = "controlled-sov"
size = "smoke"
vocabulary = 60
dropout = 0.1
updates = 4
"""


def test_every_model_has_the_key_that_it_was_stored_under():
    assert {name: digest(each.recipe.run)[:16] for name, each in catalogue().items()} == GOLDEN


@pytest.mark.parametrize(("name", "device", "key"), [
    ("mixture-fr-256-small-batches", "cpu", "61b57e55d436401b"),
    ("mixture-fr-256", "cuda", "9b3883f80f0fc53b"),
])  # fmt: skip
def test_a_long_training_keeps_its_key(name: str, device: str, key: str):
    text = "72f3b60fc2f2acd25560af9b3ea2889cfc6a4fe84d7b07a00711281906fb30b3"
    policy = {"precision": "bf16-mixed", "device": device}
    assert Ingredients(TRAINED, run(name), {"corpus": text}, policy).key == key


def of_profile(name: str) -> set[str]:
    """Digests of all runs that a profile's pages train, whatever validation chooses."""
    config = Config(name)
    runs = [*config.translation_models(), *config.language_models(), *config.variants()]
    runs += [*config.encoder_models(), *config.masked_models()]
    return {digest(each) for each in runs}


def test_no_profile_trains_a_model_without_a_name_and_none_is_left_over():
    named = {digest(run(name)): name for each in catalogue().values() for name in each.names()}
    trained = set().union(*(of_profile(name) for name in PROFILES))
    assert trained <= named.keys()
    assert {named[each] for each in named.keys() - trained} == {
        "mixture-fr-256-masked", "mixture-fr-256-small-batches",
        "tatoeba-de-128-more-updates-seed1", "tatoeba-de-128-more-updates-seed2",
        "tatoeba-de-128-more-updates-masked", "tatoeba-de-128-more-updates-masked-seed1",
        "tatoeba-de-128-more-updates-masked-seed2",
        "multi30k-de-64", "multi30k-de-128-short", "multi30k-de-256-short",
    }  # fmt: skip


def test_a_run_has_the_name_of_the_model_that_it_trains():
    for name in ("mixture-fr-256", "multi30k-de-128", "mixture-fr-256-masked"):
        assert name_of(run(name)) == name
    with pytest.raises(UserError, match="has no name: add it to"):
        name_of(run("multi30k-de-128").with_seed(77))


def test_a_seed_of_ones_own_is_a_name():
    first, seventh = run("multi30k-de-128"), run("multi30k-de-128-seed7")
    assert seventh == first.with_seed(7)
    assert catalogue()["multi30k-de-128"].names() == [
        "multi30k-de-128", "multi30k-de-128-seed1", "multi30k-de-128-seed2",
    ]  # fmt: skip


def test_a_family_stands_for_its_models_and_their_seeds():
    names = select(["tatoeba-de-{width}", "wikitext-2-128-short-drophead-{drop_head}-{schedule}"])
    assert names[:2] == ["tatoeba-de-64", "tatoeba-de-256"]
    assert names[2:5] == [f"wikitext-2-128-short-drophead-0.2-constant{seed}" for seed in
                          ("", "-seed1", "-seed2")]  # fmt: skip


@pytest.mark.parametrize("name", ["multi30k-de-182", "multi30k-de-128-seed", "firefox-en-pt"])
def test_an_unknown_name_is_one_line(name: str):
    with pytest.raises(UserError) as caught:
        recipe(name)
    assert name in str(caught.value) and "\n" not in str(caught.value)


BASE = recipe("multi30k-de-64")
DROPPING = {"drop_head": DropHeadSchedule(0.1, 0.1)}


@pytest.mark.parametrize(
    ("task", "added"),
    [
        (Task.LANGUAGE, {**DROPPING, "sharing": Sharing(2)}),
        (Task.TRANSLATION, {"sharing": Sharing(2)}),
        (Task.TRANSLATION, {"delight": True}),
        (Task.PUBLISHED, DROPPING),
        (Task.MASKED, DROPPING),
    ],
)
def test_what_nobody_could_train_is_refused(task: Task, added: dict):
    with pytest.raises(UserError, match="leave it out"):
        replace(BASE, task=task, **added)


def test_an_addition_is_in_the_run_and_nothing_else_is():
    base = recipe("wikitext-2-128-short")
    with_it, without = plain(replace(base, **DROPPING).run), plain(base.run)
    assert with_it == without | plain(DROPPING)


def test_a_text_is_learnt_without_smoothing_beside_the_translation_model_of_seed_nought():
    beside: Recipe = replace(BASE, task=Task.MASKED).with_seed(3)
    assert beside.run.text == BASE.with_seed(0).run
    assert (beside.run.training.seed, beside.run.training.label_smoothing) == (3, 0.0)


def write(folder: Path, text: str) -> Path:
    file = folder / "models.toml"
    file.write_text(ENTRY + text)
    return file


def test_a_family_is_every_combination_of_its_lists(tmp_path: Path):
    file = write(tmp_path, '["{like}-{width}-{beam}"]\nlike = ["base"]\nwidth = [8, 32]\n'
                           "beam = [1, 2]\nseeds = 2\n")  # fmt: skip
    found = catalogue(file)
    assert list(found) == ["base", "base-8-1", "base-8-2", "base-32-1", "base-32-2"]
    wide = found["base-32-2"].recipe
    assert (wide.size.width, wide.size.feed_forward, wide.search.beam) == (32, 64, 2)
    assert wide.training.updates == 4 and found["base-8-1"].names()[1] == "base-8-1-seed1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[bad]\nlike = "nobody"\n', "nobody"),
        ('[bad]\nlike = "base"\ndropuot = 0.1\n', "dropuot"),
        ('[bad]\nlike = "base"\ntask = "poetry"\n', "poetry"),
        ('[bad]\nlike = "base"\nkind = "old"\n', "old"),
        ('[bad]\nlike = "base"\nupdates = 0\n', "updates is 0"),
        ('[bad]\nlike = "base"\ndrop_head = 0.1\nschedule = "w"\n', "'w'"),
        ('["{size}"]\nlike = "base"\n', "size"),
        ('[bad]\nkind = "young"\n', "task"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, text: str, said: str):
    with pytest.raises(UserError, match="mend it") as caught:
        catalogue(write(tmp_path, text))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_released_models_stand_beside_and_are_left_out():
    assert "firefox-en-pt" not in catalogue()
    assert not any("{" in name for name in catalogue()) and catalogues.is_named("msdocs-ru-128")
