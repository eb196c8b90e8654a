"""Page 44: distances are right where the answer is known, and the claims follow the tables."""

import pandas as pd
import torch

from headbook.chapters.why.fast_weights import DELTA, SUM, UNIFORM, distances, rewriting_rows


def test_the_distance_of_uniform_weights_from_a_point_is_all_but_its_share():
    queries = torch.zeros(1, 4, 8, dtype=torch.float64)
    weights = torch.eye(4, dtype=torch.float64)[None]
    found = distances(queries, queries, weights)
    torch.testing.assert_close(found[UNIFORM], torch.tensor([0.75]).double())
    # keys that are all alike give every map uniform weights, or none at all
    for name, value in found.items():
        torch.testing.assert_close(value, found[UNIFORM], msg=name)


def test_a_map_that_is_the_softmax_has_no_distance_and_many_features_come_near_it():
    generator = torch.Generator().manual_seed(0)
    queries, keys = (torch.randn(2, 5, 8, generator=generator, dtype=torch.float64) / 2
                     for _ in range(2))  # fmt: skip
    weights = (queries @ keys.mT * 8**-0.5).softmax(-1)
    found = distances(queries, keys, weights)
    assert found["FAVOR+, 1,024 features"].max() < 0.02 < found[UNIFORM].min()


def test_the_sum_forgets_what_the_delta_rule_keeps():
    rows = pd.DataFrame(rewriting_rows(0)).set_index(["memory", "writes"])["error"]
    assert rows[DELTA].max() < 1e-12 and rows[SUM, 1] < 1e-12
    assert abs(rows[SUM, 8] - 7 / 8) < 0.1
