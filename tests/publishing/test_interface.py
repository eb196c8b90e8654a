"""The page of the public interface says what the public names take and return."""

import headbook as hb
from headbook.publishing import interface


def test_every_public_name_and_every_figure_has_its_place() -> None:
    text = interface.page()
    for name in hb.__all__:
        assert f"\n## hb.{name}\n" in text
    for name in ("heads", "intervals", "curves", "film", "sentence"):
        assert f"\n### hb.plots.{name}\n" in text
    assert "hb.roles(heads: DataFrame, held: bool = True) -> DataFrame" in text
    assert "translate(sentences: Sequence[str]) -> list[str]" in text
    assert "`confidence`\n: mean largest weight of a query" in text


def test_a_list_of_columns_becomes_definitions() -> None:
    text = interface.markdown("One row.\n\na, b: first\n    of two\nc: second\n\nEnd: not a column")
    assert text == "One row.\n\n`a, b`\n: first of two\n\n`c`\n: second\n\nEnd: not a column"
