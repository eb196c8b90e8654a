"""A page fails where the measure that it shows is changed: its lines agree with the package."""

from pathlib import Path

import nbformat
import pytest
import yaml

from headbook import paths

CHANGES = (
    ("13", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("13", "offsets[answer - asks + 20, question]", "offsets[answer - asks + 19, question]"),
    ("13", "nearest = asks + 1 + nouns", "nearest = asks + nouns"),
    ("18", "w_o[:, :size] = 0", "w_o[:, size : 2 * size] = 0"),
    ("18", "- nearness[~row]", "- nearness[row]"),
    ("18", "log_alpha - beta *", "log_alpha + beta *"),
    ("19", "np.mean([decoder, cross])", "np.mean([encoder, cross])"),
    ("19", "cross[high].mean()", "cross[low].mean()"),
    ("60", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("60", "np.arange(len(points)) - 1", "np.arange(len(points)) + 1"),
)


def cells(page: str) -> list[str]:
    """The code of a page, its parameters those of `smoke`."""
    (path,) = paths.NOTEBOOKS.glob(f"{page}_*.ipynb")
    given = yaml.safe_load(Path(paths.NOTEBOOKS, "parameters", "smoke.yml").read_text("utf-8"))
    found = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            found.append(cell.source)
            if "parameters" in cell.metadata.get("tags", []):
                found += [f"{name} = {value!r}" for name, value in given[int(page)].items()]
    return found


@pytest.mark.parametrize(("page", "shown", "changed"), CHANGES)
def test_a_changed_measure_fails_its_page(page: str, shown: str, changed: str) -> None:
    code = "\n".join(cells(page))
    assert shown in code
    with pytest.raises(AssertionError):
        exec(compile(code.replace(shown, changed), page, "exec"), {})
