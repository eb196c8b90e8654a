"""The arithmetic of a step is what the machine has: emulated bfloat16 is never chosen."""

import pytest
import torch

from headbook.training import precision, processes
from headbook.training.precision import Precision


@pytest.mark.parametrize("emulated", [False, True])
def test_bfloat16_is_chosen_only_where_it_is_no_emulation(monkeypatch, emulated):
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: not emulated)
    assert Precision.BF16.here() is (Precision.FULL if emulated else Precision.BF16)
    assert Precision.FULL.here() is Precision.FULL
    with processes.fabric(Precision.BF16).autocast():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype is (torch.float32 if emulated else torch.bfloat16)


def test_attention_makes_no_plan_for_every_shape_of_a_batch():
    torch.backends.cuda.enable_cudnn_sdp(True)
    processes.fabric(Precision.FULL)
    assert not torch.backends.cuda.cudnn_sdp_enabled()
