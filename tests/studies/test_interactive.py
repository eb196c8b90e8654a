"""A figure in a notebook and in the book alike: named, small, the same twice, and asking nobody."""

import plotly.graph_objects as go
import pytest

from headbook.studies.interactive import Interactive


@pytest.fixture
def figure() -> go.Figure:
    return go.Figure([go.Heatmap(z=[[0.0, 1.0], [1.0, 0.0]])])


def test_it_is_named_and_asks_nobody(figure: go.Figure) -> None:
    forms = Interactive(figure, 'a "named" <map>', "maps")._repr_mimebundle_()
    html = forms["text/html"]
    assert 'role="figure" aria-label="a &quot;named&quot; &lt;map&gt;"' in html
    assert "Plotly.newPlot" in html
    assert 'id="maps"' in html
    assert "<script src" not in html
    assert "http" not in html
    assert set(forms["application/vnd.plotly.v1+json"]) >= {"data", "layout"}


def test_the_same_figure_makes_the_same_page(figure: go.Figure) -> None:
    one, other = (Interactive(figure, "a", "maps") for _ in range(2))
    assert one._repr_mimebundle_() == other._repr_mimebundle_()
