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
