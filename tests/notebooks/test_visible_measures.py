"""A page fails where the measure that it shows is changed: its lines agree with the package."""

from pathlib import Path

import nbformat
import pytest
import yaml

from headbook import paths

CHANGES = (
    ("10", "bleu.index.max() / 1.2", "bleu.index.max() / 2"),
    ("10", "before.iloc[-1]", "before.iloc[0]"),
    ("11", "weights.max(-1).sum(-1)", "weights.min(-1).sum(-1)"),
    ("11", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("11", "== offset).sum(-1)", "== offset + 1).sum(-1)"),
    ("01", "S.argmax(-1)", "S.argmin(-1)"),
    ("01", "np.arange(S.shape[-1])", "np.arange(S.shape[-1]) + 1"),
    ("01", "(S - S.mT, S + S.mT)", "(S + S.mT, S - S.mT)"),
    ("01", "/ np.sqrt(d)", "/ d"),
    ("02", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("02", "[(at, [at - 1])", "[(at - 1, [at])"),
    ("02", "+ p * k / len(tree)", "+ k / len(tree)"),
    ("13", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("13", "offsets[answer - asks + 20, question]", "offsets[answer - asks + 19, question]"),
    ("13", "nearest = asks + 1 + nouns", "nearest = asks + nouns"),
    ("14", "weights.argmax(-1)]", "weights.argmin(-1)]"),
    ("14", "weights.sum(1).argmax(-1)", "weights.sum(1).argmin(-1)"),
    ("14", "argsort(-counts", "argsort(counts"),
    ("14", "values >= top[0]", "values > top[0]"),
    ("15", "weights.argmax(-1)\n    hits", "weights.argmin(-1)\n    hits"),
    ("15", "np.arange(own.sum()) == offset", "np.arange(own.sum()) == -offset"),
    ("15", "points[:, arc.dependent] == arc.head", "points[:, arc.head] == arc.dependent"),
    ("18", "w_o[:, :size] = 0", "w_o[:, size : 2 * size] = 0"),
    ("18", "- nearness[~row]", "- nearness[row]"),
    ("18", "log_alpha - beta *", "log_alpha + beta *"),
    ("16", "terms / terms.sum(1, keepdims=True)", "terms / terms.sum(0, keepdims=True)"),
    ("16", "(x * s).abs()", "x * s"),
    ("16", "@ positive[12:].T", "@ w[3].T"),
    ("17", "np.log(u) - np.log(1 - u)", "np.log(u) - np.log(1 + u)"),
    ("17", "beta * logit", "beta / logit"),
    ("17", "np.log(-LOW / HIGH)", "np.log(HIGH / -LOW)"),
    ("19", "np.mean([decoder, cross])", "np.mean([encoder, cross])"),
    ("19", "cross[high].mean()", "cross[low].mean()"),
    ("43", "attend(queries, E @ keys) @ (F @ values)", "attend(queries, keys) @ values"),
    ("43", "shape[-1] ** -0.5).softmax", "shape[-1] ** -1).softmax"),
    ("43", "text[2].mean(-2, keepdim=True)", "0 * text[2]"),
    ("44", "z = z + key", "z = z + 2 * key"),
    ("44", "(queries @ keys.mT).tril()", "(queries @ keys.mT).tril(-1)"),
    ("44", "r.roll(j, -1)", "r.roll(j + 1, -1)"),
    ("44", "q.shape[-1] ** 0.5).softmax", "q.shape[-1]).softmax"),
    ("48", "q.shape[-1] ** 0.5\n", "q.shape[-1]\n"),
    ("48", "-half, half + 1", "-half + 1, half + 2"),
    ("48", "place[:, None] - place) <= w // 2", "place[:, None] - place) <= w"),
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
