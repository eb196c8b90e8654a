"""A user's error in a notebook: one line."""

from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

CODE = """from headbook.types import UserError
def deep(calls):
    if calls:
        deep(calls - 1)
    raise UserError("no corpus x: name another")
deep(9)"""


def test_a_user_error_is_one_line_of_a_notebook(tmp_path: Path) -> None:
    with capture_output() as said:
        InteractiveShell(ipython_dir=str(tmp_path)).run_cell(CODE)
    assert (said.stdout, said.stderr) == ("UserError: no corpus x: name another\n", "")
