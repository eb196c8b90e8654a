"""The sample of mapped reactions: elements, numbers and atoms that are alike."""

import re

import pandas as pd
import pytest

from headbook import paths

ATOM = re.compile(r"\[([A-Z][a-z]?|[cnos])[^\]:]*(?::(\d+))?\]|(Br|Cl|[BCNOPSFIcnos])")
REACTIONS = pd.read_csv(paths.DATA / "sample" / "reactions.csv", keep_default_na=False)


def atoms(smiles: str) -> list[tuple[str, str]]:
    """Every atom's element and number, "" where it has none."""
    return [((a or b).capitalize(), number) for a, number, b in ATOM.findall(smiles)]


@pytest.mark.parametrize("at", range(len(REACTIONS)), ids=REACTIONS["name"])
def test_every_atom_of_a_product_comes_from_one_of_its_element(at: int):
    reaction, alike = REACTIONS.loc[at, ["reaction", "alike"]]
    left, right = map(atoms, reaction.split(">>"))
    mapped = [atom for atom in left if atom[1]]
    assert len({number for _, number in mapped}) == len(mapped)
    assert sorted(mapped) == sorted(right)
    whole, seen = left + right, []
    for group in alike.split():
        places = [int(place) - 1 for place in group.split("=")]
        assert len(places) > 1 and len({whole[place][0] for place in places}) == 1
        assert len({place < len(left) for place in places}) == 1
        seen += places
    assert len(set(seen)) == len(seen)


def test_there_are_forty_reactions_without_doubles():
    plain = REACTIONS["reaction"].str.replace(r":\d+", "", regex=True)
    assert len(REACTIONS) == plain.nunique() == REACTIONS["name"].nunique() == 40
