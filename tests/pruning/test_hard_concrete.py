"""Hard Concrete gates against the published probabilities, their own samples, and by hand."""

import math

import pytest
import torch
from refusing import refuses

from headbook.pruning.hard_concrete import (
    CONSTANTS,
    Constants,
    HardConcrete,
)


def gates(*log_alphas: float, source: str = "code", **options: object) -> HardConcrete:
    return HardConcrete(torch.tensor(log_alphas), CONSTANTS[source], **options)


def test_the_figures_constants_and_not_the_codes_give_what_the_figure_prints() -> None:
    """P(0) and P(1) in Figure 6 of Voita et al. 2019, to two decimals, at log α of 0, 2 and -3."""
    printed = [0.23, 0.04, 0.86, 0.23, 0.69, 0.01]
    for source, same in (("figure", True), ("code", False)):
        gate = gates(0.0, 2.0, -3.0, source=source)
        found = [*gate.closed_probability().tolist(), *gate.one_probability().tolist()]
        assert (found == pytest.approx(printed, abs=0.0055)) is same


@pytest.mark.parametrize("constants", [*CONSTANTS.values(), Constants(0.8, -0.3, 1.05)])
def test_samples_are_0_and_1_as_often_as_the_formulas_say(constants: Constants) -> None:
    draws = 40_000
    torch.manual_seed(5)
    for log_alpha in (-3.0, -0.5, 0.0, 2.0):
        gate = HardConcrete(torch.full((draws,), log_alpha), constants)
        drawn = gate()
        for value, chance in ((0, gate.closed_probability()), (1, gate.one_probability())):
            share, expected = float((drawn == value).float().mean()), float(chance[0].detach())
            spread = (expected * (1 - expected) / draws) ** 0.5
            assert abs(share - expected) < 4 * spread
        assert drawn.min() >= 0 and drawn.max() <= 1


def test_a_sample_by_hand() -> None:
    """At u = ½ the noise is 0 and the sample clip(1.2 σ(log α / β) - 0.1)."""
    gate = gates(0.0, 0.33, 3.0, -3.0)
    found = gate.at(torch.full((4,), 0.5)).tolist()
    assert found == pytest.approx([0.5, 1.2 / (1 + math.exp(-1)) - 0.1, 1.0, 0.0], abs=1e-6)
    at_e = gates(0.0, source="figure").at(torch.tensor([math.e / (1 + math.e)]))
    assert at_e.tolist() == pytest.approx([1.2 / (1 + math.exp(-2)) - 0.1], abs=1e-6)


def test_a_gate_that_is_no_number_is_said() -> None:
    refuses(gates(0.0, math.nan).eval(), "a gate is NaN")
