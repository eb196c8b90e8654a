"""Parameters: each bad one is refused in a line, each override selects the models it should."""

import math
from dataclasses import fields, replace
from pathlib import Path

import pytest

from headbook.artefacts.model import trained
from headbook.artefacts.recipe import SIZES
from headbook.chapters.config import Config
from headbook.chapters.profile import PROFILES
from headbook.chapters.tables import model_labels, model_name
from headbook.runs.store import Store
from headbook.types import UserError


def write_corpus(folder: Path) -> Path:
    """Twenty-four training pairs and a few to validate and test on."""
    folder.mkdir(parents=True)
    subjects, objects = ("the dog", "a cat", "my sister"), ("water", "a ball", "the tree", "birds")
    pairs = [(s, v, o) for s in subjects for v in ("sees", "likes", "finds") for o in objects]
    for name, part in {"train": pairs[:24], "valid": pairs[24:30], "test": pairs[30:]}.items():
        (folder / f"{name}.en").write_text("".join(f"{s} {v} {o} .\n" for s, v, o in part))
        (folder / f"{name}.de").write_text("".join(f"{s} {o} {v} .\n" for s, v, o in part))
    return folder


def assert_one_line(caught: pytest.ExceptionInfo[UserError], *said: str) -> None:
    message = str(caught.value)
    assert "\n" not in message
    for each in said:
        assert each in message


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("profile", "laptob", ", ".join(PROFILES)),
        ("profile", None, "profile is None"),
        ("profile", ["smoke"], "profile is ['smoke']"),
        ("size", "large", ", ".join(SIZES)),
        ("size", 128, "size is 128"),
        ("size", ["tiny"], "size is ['tiny']"),
        ("corpus", 30, "corpus is 30"),
        ("corpus", "", "corpus is ''"),
        ("pipeline", None, "pipeline is None"),
        ("pipeline", "no_such", "spaCy pipeline no_such: not found"),
        ("updates", 0, "1 or more"),
        ("updates", 10.0, "updates is 10.0"),
        ("updates", "10", "updates is '10'"),
        ("sentences", -3, "4 or more"),
        ("sentences", 3, "4 or more"),
        ("sentences", True, "sentences is True"),
        ("seed", -1, "0 or more"),
        ("seed", math.nan, "seed is nan"),
    ],
)
def test_a_bad_value_is_refused_in_one_line(name: str, value: object, said: str):
    # The tests' type checks would refuse it before the config's own, which a notebook meets.
    config = object.__new__(Config)
    values = {field.name: field.default for field in fields(Config)}
    config.__dict__.update(values | {name: value})
    with pytest.raises(UserError) as caught:
        config.__post_init__()
    assert_one_line(caught, name, said)


def test_no_parameter_is_the_quick_profile():
    assert Config().models() == PROFILES["quick"].models


def test_a_corpus_of_the_profile_keeps_all_its_seeds():
    chosen = Config("laptop", corpus="multi30k-de").models()
    assert [(run.corpus, run.training.seed) for run in chosen] == [
        ("multi30k-de", seed) for seed in range(3)
    ]
    assert chosen == PROFILES["laptop"].models[:3]


def test_another_corpus_gets_the_first_recipe():
    (run,) = Config("laptop", corpus="controlled-svo").models()
    assert run == replace(PROFILES["laptop"].models[0], corpus="controlled-svo")
    assert Config("laptop", corpus="controlled-svo").one_model() == run


@pytest.mark.parametrize(("corpus", "said"), [("multi30k-dd", "multi30k-de"), ("nowhere/x", "path"),
                                              ("ud-ewt", "treebank")])  # fmt: skip
def test_a_corpus_nobody_knows_is_refused(corpus: str, said: str):
    with pytest.raises(UserError) as caught:
        Config("smoke", corpus=corpus).models()
    assert_one_line(caught, corpus, said)


def test_a_seed_replaces_all_seeds_once():
    runs = Config("laptop", seed=7).models()
    assert {run.training.seed for run in runs} == {7}
    assert [run.corpus for run in runs] == ["multi30k-de", "msdocs-ru", "tatoeba-de", "tatoeba-fr"]


def test_seed_nought_is_a_seed():
    assert len(Config("laptop", corpus="multi30k-de", seed=0).models()) == 1


def test_size_and_updates_leave_the_rest_of_the_recipe():
    before, after = Config("quick").models(), Config("quick", size="paper", updates=9).models()
    for old, new in zip(before, after, strict=True):
        assert new.size == SIZES["paper"] and new.training.updates == 9
        again = replace(new.training, updates=old.training.updates)
        assert replace(new, size=old.size, training=again) == old


def test_sentences_replace_the_profiles():
    assert Config("smoke").sentence_count == 40 and Config("quick").sentence_count is None
    assert Config("smoke", sentences=7).sentence_count == 7
    assert Config("laptop").texts == PROFILES["laptop"].texts


def test_a_users_own_folder_is_trained_on_and_leaves_no_path(tmp_path: Path):
    folder = write_corpus(tmp_path / "mine")
    config = Config("smoke", corpus=str(folder), updates=2)
    (run,) = config.models()
    assert replace(run, corpus="controlled-sov") == Config("smoke", updates=2).one_model()
    made = trained(run, Store(tmp_path / "runs"))
    assert len(made.corpus.train) == 24 and made.corpus.target_language == "de"
    assert model_name(run) == "mine w16 s0"
    assert model_labels(made) == {"model": "mine w16 s0", "corpus": "mine", "target": "de",
                                  "seed": 0}  # fmt: skip
    for table in made.folder.glob("*.csv"):
        assert str(tmp_path) not in table.read_text()


def test_part_two_examines_one_model_of_each_corpus_it_sweeps():
    config, pruning = Config("laptop"), PROFILES["laptop"].pruning
    swept = [(run.corpus, run.training.seed) for run in config.pruned_models()]
    first, *others = pruning.corpora
    assert swept == [
        *((first, seed) for seed in range(3)), *((other, 0) for other in others)
    ]  # fmt: skip
    examined = [(run.corpus, run.training.seed) for run in config.examined_models()]
    named = pruning.examined_corpora or pruning.corpora
    assert examined == [(corpus, 0) for corpus in pruning.corpora if corpus in named]
    assert 0 < len(examined) <= len(pruning.corpora)
    alone = {run.corpus for run in config.encoder_pruned_models()}
    assert set(pruning.corpora) - alone == {"msdocs-ru"}
    scratch = [
        [run.corpus for run in config.scratch_models(alone=alone)] for alone in (True, False)
    ]
    assert scratch == [["tatoeba-de"], ["multi30k-de", "tatoeba-de"]]
    (asked,) = {run.corpus for run in Config("laptop", corpus="msdocs-ru").examined_models()}
    assert asked == "msdocs-ru"


def test_further_widths_are_of_the_corpora_that_are_asked_for():
    for chosen in (Config("laptop"), Config("laptop", corpus="tatoeba-de")):
        models = chosen.emerging_models()
        assert models[: len(chosen.models())] == chosen.models() and len(set(models)) == len(models)
        assert {run.corpus for run in models} == {run.corpus for run in chosen.models()}
    for corpus in ("tatoeba-de", "msdocs-ru"):
        models = Config("laptop", corpus=corpus).emerging_models()
        assert [run.size.width for run in models] == [128, 64, 256]
        assert len({run.training for run in models}) == 1
    assert {run.training.seed for run in Config("laptop", seed=4).emerging_models()} == {4}
    one = Config("laptop", corpus="tatoeba-de", size="tiny").emerging_models()
    assert one == Config("laptop", corpus="tatoeba-de", size="tiny").models()
