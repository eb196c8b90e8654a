"""Page 12: positions of dependents, counted again by other means."""

from collections import Counter

import pandas as pd
import pytest

from headbook.chapters.specialised_heads import relative_positions as page
from headbook.chapters.specialised_heads._released import trees_of
from headbook.runs.store import Store
from headbook.trees import RELATIONS
from headbook.types import UserError

SENTENCES = 60


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    store = Store(tmp_path_factory.mktemp("store"))
    return page.compute(page.Parameters(sentences=SENTENCES), store)


def test_shares_are_those_counted_in_the_trees(tables: dict[str, pd.DataFrame]) -> None:
    trees = trees_of("ewt-sample", SENTENCES)
    counts = Counter((arc.relation, arc.offset) for tree in trees for arc in tree.arcs())
    rows = tables["tree_offsets"].set_index(["relation", "offset"])
    for relation in RELATIONS:
        of = {offset: n for (name, offset), n in counts.items() if name == relation}
        found = tables["trees"].set_index("relation").loc[relation]
        assert found["arcs"] == sum(of.values()) > 0
        assert found["value"] == pytest.approx(max(of.values()) / sum(of.values()))
        assert of[found["offset"]] == max(of.values())
        assert rows.loc[(relation, 1), "value"] == pytest.approx(of.get(1, 0) / sum(of.values()))
        assert found["low"] <= found["value"] <= found["high"]
    first, last = page.DRAWN["nsubj"]
    inside = sum(n for (name, at), n in counts.items() if name == "nsubj" and first <= at <= last)
    subjects = tables["trees"].set_index("relation").loc["nsubj"]
    assert subjects["in_range_value"] == pytest.approx(inside / subjects["arcs"])


def test_spoken_subjects_are_i_we_and_you(tables: dict[str, pd.DataFrame]) -> None:
    trees = trees_of("ewt-sample", SENTENCES)
    forms = [tree.forms[arc.dependent].lower() for tree in trees for arc in tree.arcs()
             if arc.relation == "nsubj"]  # fmt: skip
    share = sum(form in {"i", "we", "you"} for form in forms) / len(forms)
    assert tables["tree_persons"]["value"].tolist() == pytest.approx([share])


def test_the_tables_shown_stand_beside_the_paper(tables: dict[str, pd.DataFrame]) -> None:
    shown = page.baselines(tables)
    assert shown["paper"].tolist() == [0.35, 0.41, 0.72, 0.46]
    assert page.ranges(tables)["range"].tolist() == ["−7 to 1", "0 to 5", "−3 to 1", "−6 to 2"]
    assert len(page.histogram(tables)) == len(RELATIONS) * (2 * page.SEEN + 1)
    assert page.facts(tables)["subtitles_amod"] == "80\N{NO-BREAK SPACE}%"


def test_the_sample_is_left_out_beside_its_treebank(tables: dict[str, pd.DataFrame]) -> None:
    more = pd.concat([tables["trees"], tables["trees"].assign(text="ud-ewt")])
    assert set(page.baselines({"trees": more})["text"]) == {"EWT"}


def test_a_text_without_trees_is_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="multi30k-de is no treebank"):
        page.compute(page.Parameters(texts=("multi30k-de",)), Store(tmp_path))
