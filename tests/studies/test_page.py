"""What a notebook shows, with a published run and without."""

import base64
import re
from pathlib import Path

import pandas as pd
import pytest
from IPython.display import Markdown
from matplotlib.figure import Figure

from headbook import paths
from headbook.claims.ledger import load
from headbook.studies import page
from headbook.studies.config import Config
from headbook.studies.measurements import claim_row
from headbook.studies.results import Tables, publish
from headbook.types import UserError

STUDY = "11_confidence_and_roles"
SMALLER = "<details><summary>Published at profile laptop, "
CLAIM = "voita-f1c-both-neighbours"
LABELS = {"model": "m", "corpus": "multi30k-de", "target": "de", "seed": 0}


def tables_with(value: float, seed: object = 0) -> Tables:
    """A claims table of a model that counts whatever the published tables know of it."""
    row = claim_row(CLAIM, LABELS | {"seed": seed}, float(value)) | {"closed": "none"}
    return {"claims": pd.DataFrame([row])}


def figure(tables: Tables) -> Figure:
    drawn = Figure(figsize=(1, 1))
    drawn.subplots().set_title(str(len(tables)))
    return drawn


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list:
    """What is displayed, in order; nothing is published yet."""
    monkeypatch.setattr(paths, "RESULTS", tmp_path)
    displayed: list = []
    monkeypatch.setattr(page, "display", displayed.append)
    return displayed


def texts(shown: list) -> list[str]:
    return [each.data for each in shown if isinstance(each, Markdown)]


def line_of(comparison: str, profile: str) -> str:
    """The line of the one claim at a profile."""
    claim = load().claim(CLAIM).claim
    (line,) = [each for each in comparison.splitlines()
               if claim in each and f"| {profile} |" in each]  # fmt: skip
    return line


def test_a_picture_is_a_png_with_its_text():
    html = page.Picture(figure({}), 'a "sharp" head < 0.5 & more')._repr_html_()
    assert 'alt="a &quot;sharp&quot; head &lt; 0.5 &amp; more"' in html
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    assert base64.b64decode(data).startswith(b"\x89PNG\r\n\x1a\n")
    # the frame that scrolls, its end, and the image: nothing of the text became markup
    assert html.count("<") == html.count(">") == 3


def test_the_same_figure_gives_the_same_bytes():
    once, twice = (page.Picture(figure({}), "x")._repr_html_() for _ in range(2))
    assert once == twice


def test_unpublished_only_this_run_is_shown(shown: list):
    page.show(STUDY, figure, tables_with(2), "Heads.")
    assert texts(shown) == ["**This run**"]
    assert [each.alt for each in shown if isinstance(each, page.Picture)] == ["Heads. This run."]


def test_published_stands_before_this_run(shown: list, tmp_path: Path):
    publish(STUDY, Config("laptop"), tables_with(2) | {"more": tables_with(1)["claims"]}, [])
    drawn: list[Tables] = []
    page.show(STUDY, lambda given: drawn.append(given) or figure(given), tables_with(0), "Heads.")
    first, last = texts(shown)
    assert first.startswith("**Published run**: profile laptop, ") and "commit" in first
    assert last == "**This run**"
    assert [len(each) for each in drawn] == [2, 1]
    alts = [each.alt for each in shown if isinstance(each, page.Picture)]
    assert alts == ["Heads. Published run.", "Heads. This run."]


def test_a_reading_is_filled_from_both_runs(shown: list):
    def read(tables: Tables) -> str:
        return f"{tables['claims']['value'].iloc[0]:g} offsets."

    page.say(read, STUDY, tables_with(1))
    publish(STUDY, Config("laptop"), tables_with(2), [])
    page.say(read, STUDY, tables_with(1))
    assert texts(shown) == ["**This run.** 1 offsets.", "**Published run.** 2 offsets.",
                            "**This run.** 1 offsets."]  # fmt: skip


def test_a_table_is_markdown_with_few_digits(shown: list):
    page.table(pd.DataFrame({"head": ["a_b"], "share": [0.123456], "test_nats": [3], 1: [2]}))
    (table,) = texts(shown)
    assert "| test nats |" in " ".join(table.split()) and "a_b" in table
    assert "0.123 |" in table and "| head" in table and "0.1234" not in table


def test_a_cell_without_a_number_is_empty_and_text_stays_text(shown: list):
    frame = pd.DataFrame({"offset": ["+1", None], "bleu": [float("nan"), 2.0], "n": [3, 40]})
    page.table(frame)
    page.table(frame.iloc[:0])
    table, empty = texts(shown)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.split("\n")]
    assert cells[0] == ["offset", "bleu", "n"] and cells[2:] == [["+1", "", "3"], ["", "2", "40"]]
    assert [cell[-1] for cell in cells[1]] == ["-", ":", ":"]
    assert "offset" in empty and len(empty.split("\n")) == 2


def test_unpublished_the_claims_of_this_run_alone_are_compared(shown: list):
    page.compare(STUDY, Config("smoke"), tables_with(2))
    (comparison,) = texts(shown)
    assert "replicated" in line_of(comparison, "smoke")
    assert "| laptop |" not in comparison
    claims = [claim for claim in load().claims if claim.study == STUDY]
    assert comparison.count("| smoke |") == len(claims)
    assert comparison.count("not run") == len(claims) - 1


def test_published_verdicts_stand_beside_this_runs(shown: list):
    publish(STUDY, Config("laptop"), tables_with(2), [])
    page.compare(STUDY, Config("smoke"), tables_with(1))
    (comparison,) = texts(shown)
    assert "✕ contradicted" in line_of(comparison, "smoke")
    assert "● replicated" in line_of(comparison, "laptop")


def test_a_laptop_run_is_not_compared_with_itself(shown: list):
    publish(STUDY, Config("laptop"), tables_with(2), [])
    page.compare(STUDY, Config("laptop"), tables_with(1))
    assert "contradicted" in line_of(texts(shown)[0], "laptop")


@pytest.mark.parametrize("gap", [None, float("nan"), ""], ids=["none", "nan", "empty"])
def test_seeds_are_named_as_given_beside_a_gap(shown: list, gap: object):
    rows = [claim_row(CLAIM, LABELS | {"model": name, "seed": seed}, 2.0)
            for name, seed in (("a", 7), ("b", gap))]  # fmt: skip
    page.compare(STUDY, Config("smoke"), {"claims": pd.DataFrame(rows)})
    line = line_of(texts(shown)[0], "smoke")
    assert "seed 7:" in line.replace("seed 7 ", "seed 7:") and "7.0" not in line
    assert line.count("seed ") == 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"claim": "voita-f9"}, "voita-f9"),
        ({"claim": "voita-f3-nsubj-head-to-dependent"}, "claim"),
        ({"value": "many"}, "value"),
    ],
)
def test_a_faulty_claims_table_is_refused(shown: list, fault: dict, said: str):
    faulty = {"claims": tables_with(2)["claims"].astype(object).assign(**fault)}
    with pytest.raises(UserError, match=said):
        page.compare(STUDY, Config("smoke"), faulty)


def test_a_table_of_this_run_stands_behind_its_heading(shown: list):
    page.show_table(STUDY, lambda tables: tables["claims"][["claim"]], tables_with(2))
    assert texts(shown)[0] == "**This run**"
    assert CLAIM in texts(shown)[1]


def test_a_claim_on_no_model_is_read_back_and_compared(shown: list, tmp_path: Path) -> None:
    """An empty corpus comes back from the published table as NaN."""
    nobody = {"model": "gate distribution", "corpus": "", "target": "", "seed": ""}
    tables = {"claims": pd.DataFrame([claim_row("voita-f6-probabilities", nobody, 0.001)])}
    publish("17_gates", Config("laptop"), tables, [], tmp_path)
    page.compare("17_gates", Config("smoke"), tables)
    assert "nan" not in shown[-1].data and "gate distribution" in shown[-1].data


@pytest.fixture
def two_profiles(shown: list) -> list:
    """Published at laptop with the value 2, which replicates the claim, and at full with 5."""
    publish(STUDY, Config("full"), tables_with(5), [])
    publish(STUDY, Config("laptop"), tables_with(2), [])
    return shown


def value(tables: Tables) -> str:
    return f"{tables['claims']['value'].iloc[0]:g} offsets."


def rendered(markdown: str) -> str:
    """As the book's parser of Markdown reads it."""
    from docutils.core import publish_parts
    from myst_parser.parsers.docutils_ import Parser

    quiet = {"report_level": 5, "embed_stylesheet": False}
    return publish_parts(markdown, parser=Parser(), writer_name="html5", settings_overrides=quiet)[
        "body"
    ]


def test_the_largest_profile_is_drawn_and_the_smaller_is_folded_below(two_profiles: list):
    page.show(STUDY, lambda tables: figure(tables), tables_with(0), "Heads.")
    kinds = [type(each) for each in two_profiles]
    assert kinds == [Markdown, page.Picture, page.Folded, Markdown, page.Picture]
    assert two_profiles[0].data.startswith("**Published run**: profile full, ")
    assert two_profiles[1].alt == "Heads. Published run."
    html = two_profiles[2]._repr_html_()
    assert html.startswith(SMALLER) and html.endswith("</details>")
    assert 'alt="Heads. Published at profile laptop."' in html
    assert "script" not in html and "Figure" not in two_profiles[2].line
    assert texts(two_profiles)[1] == "**This run**"


def test_every_profile_is_drawn_from_its_own_tables(two_profiles: list):
    drawn: list[str] = []
    page.show(STUDY, lambda given: drawn.append(value(given)) or figure(given), tables_with(0), "x")
    assert drawn == ["5 offsets.", "2 offsets.", "0 offsets."]


def test_the_reading_of_the_largest_comes_first_and_is_named(two_profiles: list):
    page.say(value, STUDY, tables_with(1))
    largest, smaller, mine = texts(two_profiles)
    assert largest == "**Published run, profile full.** 5 offsets."
    assert smaller.startswith(SMALLER) and "\n\n2 offsets.\n\n</details>" in smaller
    assert mine == "**This run.** 1 offsets."


def test_a_folded_table_is_still_a_table(two_profiles: list):
    page.show_table(STUDY, lambda tables: tables["claims"][["claim", "value"]], tables_with(0))
    named, largest, smaller, this, mine = texts(two_profiles)
    assert "profile full" in named and this == "**This run**"
    assert "5 |" in largest and "2 |" in smaller and "0 |" in mine
    html = rendered(smaller)
    opened, closed = html.index("<details>"), html.index("</details>")
    assert opened < html.index("<table") < html.index(">2<") < html.index("</table>") < closed


def test_claims_of_the_largest_are_compared_and_of_the_smaller_folded(two_profiles: list):
    page.compare(STUDY, Config("smoke"), tables_with(1))
    main, smaller = texts(two_profiles)
    assert "✕ contradicted" in line_of(main, "smoke")
    assert "| laptop |" not in main and line_of(main, "full")
    assert smaller.startswith(SMALLER)
    assert "● replicated" in line_of(smaller, "laptop")
    html = rendered(smaller)
    assert html.index("<details>") < html.index("<table") < html.index("</details>")


@pytest.mark.parametrize(("profile", "others"), [("full", ["laptop"]), ("laptop", ["full"])])
def test_no_profile_is_compared_with_itself(two_profiles: list, profile: str, others: list[str]):
    page.compare(STUDY, Config(profile), tables_with(1))
    said = "\n".join(texts(two_profiles))
    assert "contradicted" in line_of(said, profile)
    assert [
        name for name in ("full", "laptop") if name != profile and line_of(said, name)
    ] == others
    assert (SMALLER in said) == (profile == "full")


def test_what_is_folded_cannot_become_markup(shown: list):
    assert "&lt;b&gt;" in page.folded("<b>", "x")
