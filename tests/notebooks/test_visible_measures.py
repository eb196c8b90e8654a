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
    ("36", "~torch.eye", "torch.eye"),
    ("36", "cosines(x.mean(2)) ** 2", "cosines(x.mean(2))"),
    ("36", "norms / own / own[:, None]", "norms / own"),
    ("34", "wrong = y - predicted(x, y, x)", "wrong = y - predicted(x[:, :1], y, x[:, :1])"),
    ("34", "np.ones(len(each)), each", "each"),
    ("34", "predicted(x[rest], y[rest], x[out])", "predicted(x, y, x[out])"),
    ("34", "y[rest].mean()", "y[out].mean()"),
    ("35", "(cosines.diagonal() - cosines.sum(1))", "cosines.sum(1)"),
    ("35", "/ unit.shape[1]", "/ unit.shape[0]"),
    ("35", "np.corrcoef(rankdata(first), rankdata(second))", "np.corrcoef(first, second)"),
    ("40", "values.square()", "values.abs()"),
    ("40", "small[0] @ small[1].mT", "small[0] @ small[1]"),
    ("40", "torch.linalg.qr(drawn).Q @", "drawn @"),
    ("41", "else -values.T", "else values.T"),
    ("41", "(A * M[:, None]) @", "A @"),
    ("41", "[:, None] + liked.mT[:, :, None]", "[:, None]"),
    ("41", "/ K.shape[-1] ** 0.5", "/ len(M) ** 0.5"),
    ("42", "values.cumsum(-1) /", "values /"),
    ("42", "count.double() / values", "1 - count.double() / values"),
    ("42", "values.shape[-1] // 4 - 1", "values.shape[-1] // 4"),
    ("43", "attend(queries, E @ keys) @ (F @ values)", "attend(queries, keys) @ values"),
    ("43", "shape[-1] ** -0.5).softmax", "shape[-1] ** -1).softmax"),
    ("43", "text[2].mean(-2, keepdim=True)", "0 * text[2]"),
    ("44", "z = z + key", "z = z + 2 * key"),
    ("44", "(queries @ keys.mT).tril()", "(queries @ keys.mT).tril(-1)"),
    ("44", "r.roll(j, -1)", "r.roll(j + 1, -1)"),
    ("44", "q.shape[-1] ** 0.5).softmax", "q.shape[-1]).softmax"),
    ("45", "(1 - features / keys) / 2", "(1 - keys / features) / 2"),
    ("45", "(1 - 2 * loss)", "(1 - loss)"),
    ("45", "r * r.roll(1, -1)", "r * r.roll(2, -1)"),
    ("45", "keepdim=True) + 1e-6", "keepdim=True) + 1"),
    ("46", "return norm(skip * x + part(x))", "return norm(x + part(x))"),
    ("46", "size(x - x.mean(0)) / size(x)", "size(x - x.mean(1, keepdims=True)) / size(x)"),
    ("46", "np.abs(x).sum(1).max()", "np.abs(x).sum(1).mean()"),
    ("46", "y - y.mean(1)", "y - y.mean(2, keepdims=True)"),
    ("47", "centred = x - x.mean(-1", "centred = x - x.mean(0"),
    ("47", "(norm.weight, norm.bias)", "(norm.weight,)"),
    ("47", "(logits.argmax(-1) == labels)", "(logits.argmin(-1) == labels)"),
    ("50", "for offset in (-1, 1, 0)", "for offset in (1, -1, 0)"),
    ("50", "(v @ w).norm(dim=-1)", "v.norm(dim=-1)"),
    ("50", '[0] == "P"', '[0] == "L"'),
    ("51", "(maps[head] + maps[head:]) / 2", "(maps[head] + maps[head:])"),
    ("51", ".clip(0) / np.log(2)", ".clip(0)"),
    ("51", "bins == bin", "bins == bin + 1"),
    ("52", "layer @ below", "below @ layer"),
    ("52", "(at + 1, top), (at, low)", "(at + 1, low), (at, top)"),
    ("52", "1 - unit[0] @ each", "unit[0] @ each"),
    ("53", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("53", "maps[:, 1:]", "maps[:, :-1]"),
    ("53", "f.norm(dim=-1)[..., None, :]", "values.norm(dim=-1)[..., None, :]"),
    ("53", "found.sum(-1) + pair.sure.sum()", "found.sum(-1)"),
    ("55", "ordered = np.sort(labels)", "ordered = np.array(labels)"),
    ("55", "best = max(tried", "best = min(tried"),
    ("55", "np.linspace(0, 1, s.", "np.linspace(1, 0, s."),
    ("55", "(x - x.mean(0) for x", "(x for x"),
    ("56", "np.argsort(-np.asarray(values)", "np.argsort(np.asarray(values)"),
    ("56", "share * one[j] + (1 - share) * one[i]", "share * one[i] + (1 - share) * one[j]"),
    ("56", ">= ends[0]) & (scores", ">= ends[0]) | (scores"),
    ("59", "scores[him] - scores[her]", "scores[her] - scores[him]"),
    ("59", "linear_sum_assignment(cost)", "linear_sum_assignment(-cost)"),
    ("59", "rankdata(each, axis=0)", "rankdata(each, axis=1)"),
    ("20", "w_o[:, :size] = 0", "w_o[:, size : 2 * size] = 0"),
    ("20", "(np.array(nats[1:]) - nats[0])", "(np.array(nats[1:]) + nats[0])"),
    ("20", "- nats[0]).sum(1)", "- nats[0]).max(1)"),
    ("21", "head.layer) == block]", "head.layer) != block]"),
    ("21", "each != name", "each == name"),
    ("24", "w[:, rows]", "w[:, : len(rows)]"),
    ("24", "head * size + at", "at * heads + head"),
    ("24", "q.shape[-1] ** 0.5).softmax", "q.shape[-1]).softmax"),
    ("30", "products(q).abs().sum((2, 3))", "products(q).sum((2, 3))"),
    ("30", "norms / own / own[:, None]", "norms / own"),
    ("30", ".var(1, correction=0)", ".var(2, correction=0)"),
    ("30", "return -between(", "return between("),
    ("31", ".triu(1).bool()", ".tril().bool()"),
    ("31", "(q @ k.mT / 128**0.5)", "(q @ k.mT / 16**0.5)"),
    ("31", ".abs().sum((2, 3))", ".sum((2, 3))"),
    ("31", "amax((0, 2))", "amin((0, 2))"),
    ("33", "return -torch.einsum", "return torch.einsum"),
    ("33", "own = c @ block", "own = -c[[*range(7), 0]] @ block"),
    ("33", ".unflatten(-1, (8, -1)).movedim(1, 0)", ".unflatten(-1, (-1, 8)).movedim(2, 0)"),
    ("26", "a.argmax(-1)", "a.argmin(-1)"),
    ("26", "abs(OFFSETS) == 1", "abs(OFFSETS) == 2"),
    ("26", "reshape(-1, tokens) - np.arange", "reshape(-1, tokens) + np.arange"),
    ("27", "/ (n - 1) / n", "/ n / n"),
    ("27", "t.ppf(0.975", "t.ppf(0.95"),
    ("27", "np.maximum.accumulate", "np.minimum.accumulate"),
    ("49", ".triu(-1).tril(-1)", ".triu(1).tril(1)"),
    ("49", "a * V[:, :, :-1]", "a * V[:, :, 1:]"),
    ("49", ".argmin(1)", ".argmax(1)"),
    ("49", "bound = r * (scores", "bound = r + (scores"),
    ("48", "q.shape[-1] ** 0.5\n", "q.shape[-1]\n"),
    ("48", "-half, half + 1", "-half + 1, half + 2"),
    ("48", "place[:, None] - place) <= w // 2", "place[:, None] - place) <= w"),
    ("58", "added[::2].sum()", "added[:-1].sum()"),
    ("58", "(-values).argsort(0", "values.argsort(0"),
    ("58", "- 2 * own", "- own"),
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
