"""Three objectives on one text: what each reads, and which tokens the tables are of."""

from dataclasses import replace

import pytest
import torch
from small import backwards, write_pairs

from headbook.experiments.objectives import (
    LANGUAGE,
    MASKED,
    TABLES,
    TASKS,
    Setting,
    examples,
    start,
)
from headbook.experiments.through_objectives import MASKINGS, Measures, tables
from headbook.text.batches import EOS, PAD

WORDS = ["the", "a", "old", "red", "dog", "cat", "man", "ball", "house", "sees", "likes", "finds"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """Two layers of width 16, three updates, on sixty short pairs."""
    rows = [[WORDS[(at + 5 * step) % 12] for step in range(4 + at % 3)] for at in range(84)]
    corpus = write_pairs(tmp_path_factory.mktemp("text") / "corpus", backwards(rows), 60, 12)
    return Setting(str(corpus), 60, 16, 2, 3, 2, 2, 60, 8, 30, 20, 100)


def test_every_task_reads_the_same_sentences(tiny: Setting):
    pairs, language, masked = (examples(tiny, task, 0, "training") for task in TASKS)
    assert [row for _, row in language] == [list(source) for source, _ in pairs]
    assert len(masked) == 2 * len(pairs)
    mask = len(start(tiny, MASKED, 0).source.tokens.weight) - 1
    for (shown, wanted), (source, _) in zip(masked, pairs, strict=False):
        restored = [b or a for a, b in zip(shown, wanted, strict=True)]
        assert restored == list(source) and PAD == 0
    assert any(mask in shown for shown, _ in masked)


def test_a_shape_and_two_stacks_or_one(tiny: Setting):
    stacks = [(len(each.encoder), len(each.decoder)) for each in (start(tiny, t, 0) for t in TASKS)]
    assert stacks == [(2, 2), (0, 2), (2, 0)]


def test_changed_places_know_what_stood_there(tiny: Setting, monkeypatch: pytest.MonkeyPatch):
    own, asked = Measures(tiny), []
    monkeypatch.setattr(own, "_rows", lambda *given: asked.append(given) or ())
    list(own.information(start(tiny, MASKED, 0), MASKED))
    assert [each[0] for each in asked] == ["whole text", *MASKINGS]
    for name, _, sentences, places, about in asked[1:]:
        shown = torch.tensor([token for row in sentences for token in row[:-1]])[places]
        wanted = about["predicted token"]
        assert torch.isin(wanted, own.common).all() and bool((wanted != PAD).all())
        if name == "replaced tokens":
            assert torch.isin(shown, own.common).all() and torch.equal(shown, about["input token"])
        else:
            assert set(shown.tolist()) == {own.size}


def test_the_next_token_is_asked_of_the_state_before_it(
    tiny: Setting, monkeypatch: pytest.MonkeyPatch
):
    own, asked = Measures(tiny), []
    monkeypatch.setattr(own, "_rows", lambda *given: asked.append(given) or ())
    list(own.information(start(tiny, LANGUAGE, 0), LANGUAGE))
    (*_, read, _), (*_, before, about) = asked
    assert torch.equal(before, read - 1)
    assert torch.equal(own.tokens[read], about["predicted token"])
    firsts = torch.tensor([0, *(len(row) - 1 for row in own.rows)]).cumsum(0)
    assert not torch.isin(read, firsts).any() and EOS not in own.tokens.tolist()


def test_bins_are_of_as_many_tokens_and_small_ones_are_left_out(tiny: Setting):
    own = Measures(tiny)
    found = own.bins()
    assert found and len({len(places) for places in found.values()}) == 1
    wide = Measures(replace(tiny, width=10_000))
    assert wide.bins() == {}


def test_all_tables_with_their_rows(tiny: Setting):
    found = tables(tiny, [0, 1])
    assert set(found) == set(TABLES)
    assert not any(found[name].duplicated(keys).any() for name, keys in TABLES.items())
    counts = found["information"].groupby(["version", "text", "token"]).size().to_dict()
    assert counts == {
        ("trained", "whole text", "input token"): 18,
        ("untrained", "whole text", "input token"): 9,
        ("trained", "whole text", "predicted token"): 6,
        ("trained", "replaced tokens", "input token"): 6,
        ("trained", "replaced tokens", "predicted token"): 6,
        ("trained", "masked tokens", "predicted token"): 6,
    }
    below = found["information"].query("layer == 0 and token == 'input token'")
    assert (below["nats"] > 0.9 * below["entropy_nats"]).all()  # the tokens are the states' own
    between = found["between"]
    crossed = (between["one"] == between["other"]) == (between["seed"] == between["other_seed"])
    assert not crossed.any() and len(between) == 27 and between["distance"].between(0, 1).all()
