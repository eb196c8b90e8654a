"""Models of `transformers` through the whole interface: tiny random ones of three kinds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_hugging import bart, bert, gpt2, save
from torch import Tensor, nn

import headbook as hb
from headbook.looking.importance import by_gradient
from headbook.looking.measured import measured
from headbook.looking.page import page
from headbook.looking.text import Text
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch


class SentenceGate(nn.Module):
    """ξ of Michel et al. 2019, one per sentence and head and all 1."""

    def __init__(self, sentences: int, heads: int) -> None:
        super().__init__()
        self.xi = torch.ones(sentences, heads, requires_grad=True)

    def forward(self) -> Tensor:
        return self.xi


def by_gates(model: Loaded, batches: Sequence[Batch]) -> Tensor:
    """Equation 2 of Michel et al. as it reads: the mean over sentences of |∂L/∂ξ_h|."""
    blocks, rows = [block for _, _, block in model.network.attentions()], []
    for batch in batches:
        for block in blocks:
            block.gate = SentenceGate(len(batch), block.heads)
        loss = model.losses(batch).sum()
        found = torch.autograd.grad(loss, [block.gate.xi for block in blocks])
        rows.append(torch.cat(found, dim=1))
        for block in blocks:
            block.gate = None
    return torch.cat(rows).abs().mean(0).double()


@pytest.mark.parametrize(
    ("made", "kinds"),
    [(bert, ["encoder"]), (gpt2, ["decoder"]), (bart, ["encoder", "decoder", "cross"])],
)
def test_a_family_is_measured_and_shown(
    made: Callable, kinds: list[str], sample: Text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):  # fmt: skip
    text = replace(sample, sentences=sample.sentences[:5], trees=sample.trees[:5])
    save(made(), text.sentences, tmp_path)
    model = hb.load(tmp_path)
    monkeypatch.setattr(type(model), "translate", lambda self, given: [each[:9] for each in given])
    heads = hb.measure(model, text, nulls=1, ablated=2, progress=False)
    assert list(dict.fromkeys(heads["kind"])) == kinds
    found = ["confidence", "special", "entropy", "importance_gradient", "importance_ablation"]
    assert heads[found].notna().all(axis=None)
    batches = model.batches(text.sentences, text.sentences if "cross" in kinds else None)
    torch.testing.assert_close(
        by_gradient(model, batches), by_gates(model, batches), rtol=1e-4, atol=1e-8
    )
    first = heads["kind"] == kinds[0]
    assert heads.loc[first, "nsubj_head_to_dependent"].notna().all()
    assert ("induction" in heads) == (kinds == ["decoder"])
    assert not measured(heads).diversity.drop(columns=["kind", "layer"]).isna().all(axis=None)
    assert len(hb.roles(heads, held=False)) > 0
    if "cross" in kinds:
        html = page(model, text, heads, "heads.csv")
        assert "</html>" in html and all(f"{kind} L1H1" in html for kind in kinds)
