"""Spectra of query-key products: known answers, and agreement with the products multiplied out."""

import pytest
import torch

from headbook.heads.query_key import dimensions, energy, spectra


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("heads", "width", "dim"), [(1, 5, 1), (4, 12, 3), (3, 4, 2), (2, 33, 9)])
def test_spectra_equal_those_of_the_products_multiplied_out(heads, width, dim):
    queries, keys = drawn(heads, width, dim), drawn(heads, width, dim, seed=1)
    alone, together = spectra(queries, keys)
    products = queries @ keys.mT
    torch.testing.assert_close(alone, torch.linalg.svdvals(products)[:, :dim])
    whole = torch.linalg.svdvals(products.sum(0))[: min(width, heads * dim)]
    torch.testing.assert_close(together, whole)


def test_heads_with_spaces_of_their_own_use_all_dimensions_and_equal_ones_share():
    basis = torch.eye(12, dtype=torch.float64).unflatten(1, (4, 3)).transpose(0, 1)
    assert dimensions(spectra(basis, basis)[1], 1.0) == 12
    same = basis[:1].expand(4, -1, -1)
    assert dimensions(spectra(same, same)[1], 1.0) == 3


def test_energy_and_dimensions_by_hand():
    values = torch.tensor([[3.0, 1.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(energy(values)[0], torch.tensor([0.9, 1.0, 1.0]).double())
    assert dimensions(values, 0.9).tolist() == [1, 3]
