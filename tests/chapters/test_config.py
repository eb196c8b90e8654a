"""Parameters: each bad one is refused in a line, each override selects the models it should."""

import math
from dataclasses import fields, replace
from pathlib import Path

import pytest
from small import write_pairs

from headbook.artefacts.catalogue import runs
from headbook.artefacts.model import trained
from headbook.artefacts.recipe import SIZES
from headbook.chapters import config as configs
from headbook.chapters.config import Config
from headbook.chapters.profile import PROFILES, Profile
from headbook.chapters.tables import model_labels, model_name
from headbook.runs.store import Store
from headbook.types import UserError


def write_corpus(folder: Path) -> Path:
    """Twenty-four training pairs and a few to validate and test on."""
    subjects, objects = ("the dog", "a cat", "my sister"), ("water", "a ball", "the tree", "birds")
    rows = [(s, v, o) for s in subjects for v in ("sees", "likes", "finds") for o in objects]
    return write_pairs(folder, [(f"{s} {v} {o} .", f"{s} {o} {v} .") for s, v, o in rows], 24, 6)


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


SOV, SVO, VSO = runs("controlled-sov-16", "controlled-svo-16", "controlled-vso-16")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Two seeds of one corpus, one of two others; of the second further widths."""
    pruning = replace(
        PROFILES["smoke"].pruning, corpora=(SOV.corpus, VSO.corpus, SVO.corpus),
        encoder_corpora=(SOV.corpus, SVO.corpus), examined_corpora=(SOV.corpus, SVO.corpus),
        scratch_corpora=(SOV.corpus, SVO.corpus), scratch_encoder_corpora=(SVO.corpus,),
    )  # fmt: skip
    wider = replace(SVO, size=replace(SVO.size, width=32))
    found = Profile((SOV, SOV.with_seed(1), SVO, VSO), pruning, ("a", "b"), 40, emerging=(wider,))
    monkeypatch.setattr(configs, "PROFILES", {"toy": found})
    return found


def test_a_corpus_of_the_profile_keeps_all_its_seeds(toy: Profile):
    assert Config("toy", corpus=SOV.corpus).models() == (SOV, SOV.with_seed(1))


def test_another_corpus_gets_the_first_recipe(toy: Profile):
    expected = replace(SOV, corpus="controlled-mixed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(configs, "load", lambda corpus, pairs: None)
        assert Config("toy", corpus="controlled-mixed").models() == (expected,)
        assert Config("toy", corpus="controlled-mixed").one_model() == expected


@pytest.mark.parametrize(("corpus", "said"), [("multi30k-dd", "multi30k-de"), ("nowhere/x", "path"),
                                              ("ud-ewt", "treebank")])  # fmt: skip
def test_a_corpus_nobody_knows_is_refused(corpus: str, said: str):
    with pytest.raises(UserError) as caught:
        Config("smoke", corpus=corpus).models()
    assert_one_line(caught, corpus, said)


@pytest.mark.parametrize("seed", [0, 7])
def test_a_seed_replaces_all_seeds_once(seed: int, toy: Profile):
    expected = tuple(run.with_seed(seed) for run in (SOV, SVO, VSO))
    assert Config("toy", seed=seed).models() == expected


def test_size_and_updates_leave_the_rest_of_the_recipe():
    before, after = Config("quick").models(), Config("quick", size="paper", updates=9).models()
    for old, new in zip(before, after, strict=True):
        assert new.size == SIZES["paper"] and new.training.updates == 9
        again = replace(new.training, updates=old.training.updates)
        assert replace(new, size=old.size, training=again) == old


def test_sentences_replace_the_profiles(toy: Profile):
    assert Config("toy").sentence_count == toy.sentences and Config("toy").texts == toy.texts
    assert Config("toy", sentences=7).sentence_count == 7


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


def test_pruning_takes_every_seed_of_its_first_corpus_and_one_of_the_others(toy: Profile):
    config = Config("toy")
    assert config.pruned_models() == (SOV, SOV.with_seed(1), VSO, SVO)
    assert config.encoder_pruned_models() == (SOV, SOV.with_seed(1), SVO)
    assert config.examined_models() == (SOV, SVO)
    assert config.scratch_models(alone=True) == (SVO,)
    assert config.scratch_models(alone=False) == (SOV, SVO)


def test_a_corpus_that_is_asked_for_is_pruned_and_examined(toy: Profile):
    config = Config("toy", corpus=VSO.corpus)
    assert config.pruned_models() == config.encoder_pruned_models() == (VSO,)
    assert config.examined_models() == (VSO,)


def test_further_widths_are_of_the_corpora_that_are_asked_for(toy: Profile):
    (wider,) = toy.emerging
    assert Config("toy").emerging_models() == (*toy.models, wider)
    assert Config("toy", corpus=SVO.corpus).emerging_models() == (SVO, wider)
    assert Config("toy", corpus=VSO.corpus).emerging_models() == (VSO,)
    assert {run.training.seed for run in Config("toy", seed=4).emerging_models()} == {4}
    same_width = Config("toy", corpus=SVO.corpus, size="tiny")
    assert same_width.emerging_models() == same_width.models()
