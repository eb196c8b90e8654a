"""A user's error in a notebook: one line."""

from pathlib import Path

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_notebook

CODE = """from headbook.types import UserError
def deep(calls):
    if calls:
        deep(calls - 1)
    raise UserError("no corpus x: name another")
deep(9)"""


def test_a_user_error_is_one_line_of_a_notebook_and_of_papermill(tmp_path: Path) -> None:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    faulty = new_notebook(cells=[new_code_cell(CODE)], metadata={"kernelspec": kernel})
    nbformat.write(faulty, tmp_path / "in.ipynb")
    with pytest.raises(papermill.PapermillExecutionError) as error:
        papermill.execute_notebook(
            tmp_path / "in.ipynb", tmp_path / "out.ipynb", progress_bar=False, start_timeout=600
        )
    line = "UserError: no corpus x: name another"
    rule = "-" * 75
    said = str(error.value).strip().splitlines()
    assert said == [rule, 'Exception encountered at "In [1]":', line]
    outputs = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells[-1].outputs
    assert [output.traceback for output in outputs] == [[line]]
