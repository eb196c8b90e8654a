"""Greedy search of a shrinking batch: what beam search with a beam of 1 finds."""

import pytest
import torch
from blocks import ragged, tiny

from headbook.models import greedy
from headbook.models.decoding import Search, translate
from headbook.models.greedy import greedily
from headbook.models.loaded import Candidates
from headbook.models.transformer import Transformer
from headbook.text.batches import EOS, PAD

SEARCH = Search(beam=1, longest=1.0)


@pytest.fixture(scope="module")
def model() -> Transformer:
    """One that ends its sentences at many lengths, and some of them never."""
    return tiny(3, source_vocabulary=30, target_vocabulary=12).eval()


def sources(count: int) -> torch.Tensor:
    lengths = [2 + 7 * each % 11 for each in range(count)]
    return ragged(lengths, lengths, vocabulary=30).source


def found(model: Transformer, source: torch.Tensor, *barred: int) -> list[list[int]]:
    """Greedy translations of all words but PAD, and of each row without these words."""
    ids = torch.arange(PAD + 1, 12)
    not_allowed = torch.isin(ids, torch.tensor(barred)).expand(len(source), -1)
    with torch.inference_mode():
        encoded, limits = model.encode(source), SEARCH.limits(source)
        return greedily(model, *encoded, limits, Candidates(ids, not_allowed), EOS)


@pytest.mark.parametrize("leaving", [1, 16, 10**9])
def test_it_is_beam_search_with_a_beam_of_1(
    model: Transformer, leaving: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(greedy, "LEAVING", leaving)
    source = sources(60)
    translated = found(model, source)
    assert translated == translate(model, source, SEARCH)
    limits = SEARCH.limits(source).tolist()
    cut = [len(row) == limit for row, limit in zip(translated, limits, strict=True)]
    assert any(cut) and not all(cut) and len({len(row) for row in translated}) > 5


def test_only_allowed_words_are_chosen(model: Transformer):
    source = sources(12)
    assert {7, 8} <= {word for row in found(model, source) for word in row}
    again = found(model, source, 7, 8)
    assert not {7, 8} & {word for row in again for word in row}
    assert again == [found(model, row[row != PAD][None], 7, 8)[0] for row in source]
