"""The pages of part 5 on a model trained here, from the weights that come with the book."""

from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from headbook import paths
from headbook.chapters.chapter import find
from headbook.claims import scorecard
from headbook.claims.rule import Outcome
from headbook.experiments.genders import EXAMPLES
from headbook.experiments.pronouns import pronouns
from headbook.looking.text import SAMPLE, text
from headbook.runs.store import Store
from headbook.types import UserError

OURS = ["mixture-fr-256-masked"]
SMALL = {
    54: {"sentences": 30},
    61: {"corpus": "planted", "seeds": 2, "train": 12, "sentences": 6},
}
NAMED = {page: SMALL[page] for page in (54, 61)}
"""Pages that run on a model that a reader names."""


@pytest.mark.parametrize("number", SMALL, ids=str)
def test_a_page_measures_our_own_model(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path))
    chapter = find(number)
    parameters = chapter.parameters_from({"models": OURS, **SMALL[number]})
    tables = chapter.compute(parameters, Store.default())
    named = {model for table in tables.values() if "model" in table for model in table["model"]}
    assert named == set(OURS)


def test_the_pronouns_of_our_encoder_are_measured_as_those_of_released_ones():
    found = pronouns(OURS, EXAMPLES)
    assert found.groupby(["weights", "measure"]).size().tolist() == [48] * 4
    assert found["value"].between(-1, 1).all()


def test_a_young_model_is_no_evidence_for_or_against_a_work():
    """Its published rows are of its own corpus, and the gate for convergence is closed to each."""
    rows = scorecard.tidy(paths.RESULTS)
    own = rows[rows["model"].isin(OURS) & rows["study"].str.startswith("5")]
    assert {int(study[:2]) for study in own["study"]} >= {50, 51, 54, 55, 57, 58, 59}
    assert set(own["outcome"]) == {Outcome.CLOSED} and set(own["corpus"]) == {"mixture-fr"}
    assert own["closed"].str.contains("converged|present|diagnostic").all()
    tuned = rows[rows["model"].isin(OURS) & (rows["study"] == "61_fine_tuning")]
    assert len(tuned) >= 9 and set(tuned["outcome"]) == {Outcome.CLOSED}
    narrow = rows["model"] == "tatoeba-de-128-more-updates"
    translating = rows[narrow & rows["study"].str.startswith("5")]
    assert {study[:2] for study in translating["study"]} == {"53"}
    assert set(translating["outcome"]) == {Outcome.CLOSED}
    assert set(translating["corpus"]) == {"tatoeba-de"}


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a random BERT of three layers whose vocabulary is the sample's words."""
    folder = tmp_path_factory.mktemp("readers")
    spaced = " ".join(text(SAMPLE).sentences).split()
    vocabulary = {word: at for at, word in enumerate(["[UNK]", "[SEP]", *sorted(set(spaced))])}
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=16,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", sep_token="[SEP]"
    ).save_pretrained(folder)
    return str(folder)


def given(number: int, model: str) -> dict[str, object]:
    return NAMED[number] | {"models": [model]}


@pytest.mark.parametrize("number", NAMED, ids=str)
def test_a_page_measures_a_folder_that_a_reader_names(number: int, readers: str, tmp_path: Path):
    chapter = find(number)
    tables = chapter.compute(chapter.parameters_from(given(number, readers)), Store(tmp_path))
    measured = [table for table in tables.values() if len(table) and "model" in table]
    assert measured and all(set(table["model"]) == {readers} for table in measured)


@pytest.mark.parametrize("number", NAMED, ids=str)
def test_a_name_that_nothing_has_is_one_line(number: int, tmp_path: Path):
    chapter = find(number)
    with pytest.raises(UserError, match="did you mean minilm") as said:
        chapter.compute(chapter.parameters_from(given(number, "minilmm")), Store(tmp_path))
    assert "\n" not in str(said.value)
