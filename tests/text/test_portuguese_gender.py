"""Nouns in Portuguese sentences, and the genders that their words say."""

import pytest

from headbook.text.portuguese_gender import FEMALE, MALE, by_ending, gender_at, swapped

SENTENCE = "O motorista pediu ajuda à gerente, e Enfermeiras ajudaram."


@pytest.mark.parametrize(
    ("at", "noun", "gender", "determiner"),
    [
        ("motorista", "motorista", MALE, "O"),
        ("O ", "motorista", MALE, "O"),  # an article belongs to the noun behind it
        ("gerente", "gerente", FEMALE, "à"),
        ("ajuda", "ajuda", FEMALE, None),
        ("Enfermeiras", "Enfermeiras", FEMALE, None),
    ],
)
def test_a_gender_is_read_from_the_determiner_or_the_ending(at, noun, gender, determiner):
    found = gender_at(SENTENCE, SENTENCE.index(at))
    assert found is not None and found.gender == gender
    assert SENTENCE[slice(*found.noun)] == noun
    assert (found.determiner and SENTENCE[slice(*found.determiner)]) == determiner


@pytest.mark.parametrize(
    ("noun", "gender"),
    [
        ("professor", MALE), ("professora", FEMALE), ("professores", MALE), ("cozinheiro", MALE),
        ("secretárias", FEMALE), ("escrivão", MALE), ("analista", None), ("assistentes", None),
        ("guarda", None), ("chefe", None), ("policial", None),
    ],
)  # fmt: skip
def test_endings(noun, gender):
    assert by_ending(noun) == gender


def test_a_determiner_changes_its_gender_and_keeps_its_capital():
    first = gender_at(SENTENCE, 3)
    assert swapped(SENTENCE, first.determiner).startswith("A motorista")
    assert gender_at(SENTENCE, len(SENTENCE)) is None
    second = gender_at(SENTENCE, SENTENCE.index("gerente"))
    assert "ajuda ao gerente" in swapped(SENTENCE, second.determiner)
