"""The benchmark compares like with like; whether its ratios are good is for the machine."""

import pytest
import torch

from headbook import bench_steps
from headbook.bench import Sizes, TorchTransformer, bench, random_pairs
from headbook.models.transformer import Transformer
from headbook.text.batches import collate
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


def test_a_batch_in_a_bucket_has_the_loss_of_its_sentences():
    pairs = random_pairs(TINY, 3)
    batch, model = collate(pairs, range(3)), Transformer(TINY.model(16)).eval()
    wide = bench_steps.in_bucket(batch, 512)
    assert wide.source.shape == wide.target_out.shape == (512 // 32, 32)
    logits = model(wide)[wide.target_mask]
    torch.testing.assert_close(logits, model(batch)[batch.target_mask], rtol=1e-4, atol=1e-5)
    assert wide.target_out[wide.target_mask].equal(batch.target_out[batch.target_mask])


def test_every_step_is_timed_beside_the_one_as_it_is():
    with torch.compiler.set_stance("force_eager"):  # compiling takes a minute
        table = bench_steps.bench(1, (16,), TINY)
    speed = table[table["quantity"] == "speed"].set_index("step")["median"]
    assert len(speed) == 5 and speed["as it is"] == 1 and (speed > 0).all()
