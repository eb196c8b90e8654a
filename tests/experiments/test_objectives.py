"""Three objectives on one text: what each reads, and of which tokens (page 39)."""

import pytest
import torch

from headbook.experiments.objectives import LANGUAGE, MASKED, TASKS, Setting, start
from headbook.experiments.objectives import examples as read_by
from headbook.experiments.through_objectives import MASKINGS, Measures
from headbook.text.batches import PAD


@pytest.fixture(scope="module")
def tiny(corpus: str) -> Setting:
    """Two layers of width 16, three updates."""
    return Setting(corpus, 60, 16, 2, 3, 2, 2, 60, 8, 30, 20, 100)


def test_every_task_reads_the_same_sentences(tiny: Setting):
    pairs, language, masked = (read_by(tiny, task, 0, "training") for task in TASKS)
    assert [row for _, row in language] == [list(source) for source, _ in pairs]
    assert len(masked) == 2 * len(pairs)
    mask = len(start(tiny, MASKED, 0).source.tokens.weight) - 1
    for (shown, wanted), (source, _) in zip(masked, pairs, strict=False):
        assert [b or a for a, b in zip(shown, wanted, strict=True)] == list(source)
    assert any(mask in shown for shown, _ in masked)


def asked_of(tiny: Setting, task: str, patch: pytest.MonkeyPatch) -> tuple[Measures, list]:
    own, asked = Measures(tiny), []
    patch.setattr(own, "_rows", lambda *given: asked.append(given) or ())
    list(own.information(start(tiny, task, 0), task))
    return own, asked


def test_changed_places_know_what_stood_there(tiny: Setting, monkeypatch: pytest.MonkeyPatch):
    own, asked = asked_of(tiny, MASKED, monkeypatch)
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
    own, ((*_, read, _), (*_, before, about)) = asked_of(tiny, LANGUAGE, monkeypatch)
    assert torch.equal(before, read - 1)
    assert torch.equal(own.tokens[read], about["predicted token"])
    firsts = torch.tensor([0, *(len(row) - 1 for row in own.rows)]).cumsum(0)
    assert not torch.isin(read, firsts).any()
