"""Models of nested arithmetic: as many parameters, sets that never meet, stored outcomes."""

import torch

from headbook.artefacts.brackets import (
    NO_VALUE,
    BracketsRun,
    encoded,
    held_out_sets,
    right,
    solved,
    start,
    training_set,
)
from headbook.corpora.batches import PAD
from headbook.corpora.brackets import Arithmetic
from headbook.models.binding import Roles
from headbook.runs.store import Store

SMALL = Arithmetic(3, 17)


def test_models_have_as_many_parameters_and_plain_ones_never_fewer():
    counts = {
        roles: sum(each.numel() for each in start(BracketsRun(roles, 1)).parameters())
        for roles in Roles
    }
    assert 0 <= counts[Roles.NONE] - counts[Roles.QUERY] < 0.01 * counts[Roles.QUERY]
    assert 0 < counts[Roles.CONSTANT] - counts[Roles.NONE] < 0.01 * counts[Roles.QUERY]


def test_a_value_stands_at_its_closing_bracket_and_nowhere_else():
    ids, values = encoded(["((1+2)*2)", "(2-1)"], SMALL)
    assert (values != NO_VALUE).nonzero().tolist() == [[0, 5], [0, 8], [1, 4]]
    assert ids[1, 5:].eq(PAD).all() and values[0, 5] == values[0, 8] == ids[1, 3] - 1


def test_training_and_test_sets_do_not_meet():
    run = BracketsRun(Roles.NONE, 1, expressions=600)
    tests = {text for texts in held_out_sets(run).values() for text in texts}
    assert not tests & set(training_set(run)) and len(training_set(run)) == 600


def test_an_answer_is_read_at_the_last_bracket():
    """A model that always shows the last digit it read is right for these alone."""
    model = start(BracketsRun(Roles.QUERY, 1)).eval()
    texts = ["(0+2)", "(2*0)", "((1+1)+1)", "(1+1)"]
    ids, values = encoded(texts, SMALL)
    wanted = []
    with torch.inference_mode():
        for row, text in enumerate(texts):
            logits = model.logits(model.decode(ids[[row], : len(text)], None, None)[0, -1])
            wanted.append(bool(logits.argmax() == values[row, len(text) - 1]))
    assert right(model, texts, SMALL).tolist() == wanted


def test_a_run_learns_the_shallow_ones_and_is_stored(tmp_path):
    run = BracketsRun(Roles.QUERY, 150, width=16, heads=2, layers=1, expressions=300)
    store = Store(tmp_path)
    found = solved(run, store)
    assert found.losses[-1] < found.losses[0] and set(found.accuracy) == {"1", "2", "3", "4"}
    assert solved(run, store) == found
    assert len(list((tmp_path / "brackets").glob("*/run.json"))) == 1
