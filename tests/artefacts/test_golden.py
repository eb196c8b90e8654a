"""The check of golden numbers sees what moved."""

import json

import pytest
from golden import Golden

KEPT = {"version": 2, "numbers": {"a": [1.0, [2.0, float("nan")]], "b": 0.0}}


@pytest.fixture
def golden(tmp_path, monkeypatch) -> Golden:
    monkeypatch.setattr(Golden, "file", tmp_path / "golden_toy.json")
    (tmp_path / "golden_toy.json").write_text(json.dumps(KEPT))
    return Golden("toy")


def test_the_same_numbers_pass(golden: Golden) -> None:
    golden.check({"a": (1.00005, (2.0, float("nan"))), "b": 0.0}, 2)


@pytest.mark.parametrize(
    ("found", "version"),
    [
        (KEPT["numbers"], 3),
        ({"a": [1.001, [2.0, float("nan")]], "b": 0.0}, 2),
        ({"a": [1.0, [2.0]], "b": 0.0}, 2),
        ({"a": [1.0, [2.0, float("nan")]]}, 2),
        ({"a": [1.0, [2.0, 0.0]], "b": 0.0}, 2),
        ({"a": [1.0, [2.0, float("nan")]], "b": 1e-9}, 2),
    ],
)
def test_another_number_shape_name_or_version_is_seen(golden, found, version) -> None:
    with pytest.raises(AssertionError, match="raise the version"):
        golden.check(found, version)


def test_what_is_written_passes(golden: Golden) -> None:
    golden.write(lambda folder: {"here": float(folder.is_dir())}, lambda found: len(found))
    golden.check({"here": 1.0}, 1)
