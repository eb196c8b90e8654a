"""Generated tasks have known answers, and their splits share no row."""

import pytest
import torch

from headbook.corpora.small_tasks import (
    NAMES,
    STRING,
    STRINGS,
    TASKS,
    UNASKED,
    task,
)


def evaluated(tokens: list[str]) -> int:
    """By recursion, which eats the tokens."""
    token = tokens.pop(0)
    if not token.startswith("["):
        return int(token)
    found = []
    while tokens[0] != "]":
        found.append(evaluated(tokens))
    tokens.pop(0)
    found.sort()
    return {
        "[MAX": max(found),
        "[MIN": min(found),
        "[SM": sum(found) % 10,
        "[MED": found[(len(found) - 1) // 2],
    }[token]


def test_hidden_bits_are_those_of_the_string_that_agrees_with_the_shown_ones():
    found = task("bit memory").test
    read = found.inputs.reshape(len(found), STRINGS + 1, STRING)
    strings, shown, asked = read[:, :-1], read[:, -1], found.labels != UNASKED
    assert set(strings.unique().tolist()) == {-1, 1}
    # just what is not shown is asked for
    assert torch.equal(shown == 0, asked) and 0.45 < float(asked.double().mean()) < 0.55
    best = (strings * shown[:, None]).sum(2).argmax(1)
    assert torch.equal((strings[torch.arange(len(read)), best] > 0)[asked], found.labels[asked] > 0)


def test_listops_labels_are_the_values_of_what_is_read():
    found = task("ListOps").test
    for vectors, real, label in zip(found.inputs, found.real, found.labels, strict=True):
        tokens = [NAMES[token] for token in vectors[real].argmax(-1).tolist()]
        assert evaluated(tokens) == int(label) and not tokens
        assert not vectors[~real].any()


@pytest.mark.parametrize("name", list(TASKS))
def test_splits_share_no_row(name):
    found = task(name)
    splits = (found.train, found.validation, found.test)
    rows = [tuple(row) for split in splits for row in split.inputs.flatten(1).tolist()]
    alike = len(rows) - len(set(rows))
    assert alike == 0 and 0 < found.majority < 0.6
