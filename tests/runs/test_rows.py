"""Rows appended one by one survive a kill."""

from pathlib import Path

from headbook.runs.rows import finished


def test_a_row_that_a_kill_cut_short_is_taken_off(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    assert finished(file) == []
    file.write_text('{"loss": 1}\n{"loss": 2}\n{"los')
    assert finished(file) == [{"loss": 1}, {"loss": 2}]
    assert file.read_text() == '{"loss": 1}\n{"loss": 2}\n'
