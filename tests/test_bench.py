"""The benchmark compares like with like; whether its ratios are good is for the machine."""

import pytest

from headbook.bench import Sizes, TorchTransformer, bench
from headbook.models.transformer import Transformer
from headbook.timing import interleaved

pytestmark = pytest.mark.slow

TINY = Sizes(layers=1, heads=2, vocabulary=300, tokens=64, sentences=8)


def test_rounds_alternate_and_the_first_is_left_out():
    order = []

    def work(name: str):
        return lambda number: order.append((name, number)) or float(number)

    taken = interleaved({"a": work("a"), "b": work("b")}, 2, "test")
    assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert taken == {"a": [1.0, 2.0], "b": [1.0, 2.0]}


def test_a_row_per_ratio_and_width_of_models_of_one_size():
    ours, torchs = (
        sum(each.numel() for each in kind(TINY.model(16)).parameters())
        for kind in (Transformer, TorchTransformer)
    )
    assert ours == torchs
    table = bench(1, (16,), TINY)
    assert len(table) == 3 and (table["median"] > 0).all()
