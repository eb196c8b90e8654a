"""A page fails where the measure that it shows is changed: its lines agree with the package."""

from pathlib import Path

import nbformat
import pytest
import yaml
from forking import FAILED, ends

from headbook import paths

CHANGES = (
    ("01", "S.argmax(-1)", "S.argmin(-1)"),
    ("01", "np.arange(S.shape[-1])", "np.arange(S.shape[-1]) + 1"),
    ("02", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("02", "[(at, [at - 1])", "[(at - 1, [at])"),
    ("10", "bleu.index.max() / 1.2", "bleu.index.max() / 2"),
    ("10", "before.iloc[-1]", "before.iloc[0]"),
    ("11", "weights.max(-1).sum(-1)", "weights.min(-1).sum(-1)"),
    ("11", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("13", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("13", "offsets[answer - asks + 20, question]", "offsets[answer - asks + 19, question]"),
    ("14", "weights.argmax(-1)]", "weights.argmin(-1)]"),
    ("14", "weights.sum(1).argmax(-1)", "weights.sum(1).argmin(-1)"),
    ("15", "weights.argmax(-1)\n    hits", "weights.argmin(-1)\n    hits"),
    ("15", "np.arange(own.sum()) == offset", "np.arange(own.sum()) == -offset"),
    ("16", "terms / terms.sum(1, keepdims=True)", "terms / terms.sum(0, keepdims=True)"),
    ("16", "(x * s).abs()", "x * s"),
    ("17", "np.log(u) - np.log(1 - u)", "np.log(u) - np.log(1 + u)"),
    ("17", "beta * logit", "beta / logit"),
    ("18", "w_o[:, :size] = 0", "w_o[:, size : 2 * size] = 0"),
    ("18", "- nearness[~row]", "- nearness[row]"),
    ("19", "> np.arange(8)", ">= np.arange(8)"),
    ("19", "cross[high].mean()", "cross[low].mean()"),
    ("20", "w_o[:, :size] = 0", "w_o[:, size : 2 * size] = 0"),
    ("20", "(np.array(nats[1:]) - nats[0])", "(np.array(nats[1:]) + nats[0])"),
    ("21", "head.layer) == block]", "head.layer) != block]"),
    ("21", "each != name", "each == name"),
    ("22", "* s).sum(-1).abs()", "* s).sum(-1)"),
    ("22", "(a.detach() * s)", "(a.detach() + s)"),
    ("23", "if kept[at] < least", "if kept[at] > least"),
    ("23", "(kept[at - 1] - least) /", "(least - kept[at]) /"),
    ("24", "w[:, rows]", "w[:, : len(rows)]"),
    ("24", "head * size + at", "at * heads + head"),
    ("25", "torch.autograd.grad(model", "torch.autograd.grad(0.5 * model"),
    ("25", "(x * y).sum(-1)", "(x * x).sum(-1)"),
    ("26", "a.argmax(-1)", "a.argmin(-1)"),
    ("26", "abs(OFFSETS) == 1", "abs(OFFSETS) == 2"),
    ("27", "/ (n - 1) / n", "/ n / n"),
    ("27", "t.ppf(0.975", "t.ppf(0.95"),
    ("30", "products(q).abs().sum((2, 3))", "products(q).sum((2, 3))"),
    ("30", "norms / own / own[:, None]", "norms / own"),
    ("31", ".triu(1).bool()", ".tril().bool()"),
    ("31", "(q @ k.mT / 128**0.5)", "(q @ k.mT / 16**0.5)"),
    ("33", "return -torch.einsum", "return torch.einsum"),
    ("33", "own = c @ block", "own = -c[[*range(7), 0]] @ block"),
    ("34", "wrong = y - predicted(x, y, x)", "wrong = y - predicted(x[:, :1], y, x[:, :1])"),
    ("34", "np.ones(len(each)), each", "each"),
    ("35", "(cosines.diagonal() - cosines.sum(1))", "cosines.sum(1)"),
    ("35", "/ unit.shape[1]", "/ unit.shape[0]"),
    ("36", "~torch.eye", "torch.eye"),
    ("36", "cosines(x.mean(2)) ** 2", "cosines(x.mean(2))"),
    ("37", "H / stays.sum(1, keepdim=True)", "1 / stays.sum(1, keepdim=True)"),
    ("37", ".shape[:2]) >= rate", ".shape[:2]) < rate"),
    ("38", "torch.arange(H) // (H // G)", "torch.arange(H) % G"),
    ("38", "q.shape[-1] ** 0.5", "q.shape[-1]"),
    ("39", "p.sum(1, keepdims=True) * p.sum(0)", "p.sum(1, keepdims=True)"),
    ("39", "return mutual(own, tokens) - np.mean(null)", "return mutual(own, tokens)"),
    ("40", "values.square()", "values.abs()"),
    ("40", "small[0] @ small[1].mT", "small[0] @ small[1]"),
    ("41", "else -values.T", "else values.T"),
    ("41", "(A * M[:, None]) @", "A @"),
    ("42", "values.cumsum(-1) /", "values /"),
    ("42", "count.double() / values", "1 - count.double() / values"),
    ("43", "attend(queries, E @ keys) @ (F @ values)", "attend(queries, keys) @ values"),
    ("43", "shape[-1] ** -0.5).softmax", "shape[-1] ** -1).softmax"),
    ("44", "z = z + key", "z = z + 2 * key"),
    ("44", "(queries @ keys.mT).tril()", "(queries @ keys.mT).tril(-1)"),
    ("45", "(1 - features / keys) / 2", "(1 - keys / features) / 2"),
    ("45", "(1 - 2 * loss)", "(1 - loss)"),
    ("46", "return norm(skip * x + part(x))", "return norm(x + part(x))"),
    ("46", "size(x - x.mean(0)) / size(x)", "size(x - x.mean(1, keepdims=True)) / size(x)"),
    ("47", "centred = x - x.mean(-1", "centred = x - x.mean(0"),
    ("47", "(norm.weight, norm.bias)", "(norm.weight,)"),
    ("48", "q.shape[-1] ** 0.5\n", "q.shape[-1]\n"),
    ("48", "-half, half + 1", "-half + 1, half + 2"),
    ("49", ".triu(-1).tril(-1)", ".triu(1).tril(1)"),
    ("49", "a * V[:, :, :-1]", "a * V[:, :, 1:]"),
    ("50", "for offset in (-1, 1, 0)", "for offset in (1, -1, 0)"),
    ("50", "(v @ w).norm(dim=-1)", "v.norm(dim=-1)"),
    ("51", "(maps[head] + maps[head:]) / 2", "(maps[head] + maps[head:])"),
    ("51", ".clip(0) / np.log(2)", ".clip(0)"),
    ("52", "layer @ below", "below @ layer"),
    ("52", "(at + 1, top), (at, low)", "(at + 1, low), (at, top)"),
    ("53", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("53", "maps[:, 1:]", "maps[:, :-1]"),
    ("54", "if j != i]", "]"),
    ("54", "torch.cat([of, of.mT])", "torch.cat([of, of])"),
    ("55", "ordered = np.sort(labels)", "ordered = np.array(labels)"),
    ("55", "best = max(tried", "best = min(tried"),
    ("56", "np.argsort(-np.asarray(values)", "np.argsort(np.asarray(values)"),
    ("56", "share * one[j] + (1 - share) * one[i]", "share * one[i] + (1 - share) * one[j]"),
    ("57", "- added(pair[:1]) - added(pair[1:])", "- added(pair[1:])"),
    ("57", "return both - alone, alone", "return both, alone"),
    ("58", "added[::2].sum()", "added[:-1].sum()"),
    ("58", "(-values).argsort(0", "values.argsort(0"),
    ("59", "scores[him] - scores[her]", "scores[her] - scores[him]"),
    ("59", "linear_sum_assignment(cost)", "linear_sum_assignment(-cost)"),
    ("60", "weights.argmax(-1)", "weights.argmin(-1)"),
    ("60", "np.arange(len(points)) - 1", "np.arange(len(points)) + 1"),
    ("61", ".abs().sum(-1) / 2", ".abs().sum(-1)"),
    ("61", "marked.sum(1) / real.sum(1) * asks", "asks"),
    ("70", "diagonal(1 - n, -2, -1)[..., 1:]", "diagonal(-n, -2, -1)"),
    ("74", "np.arange(len(answer)), places", "np.arange(len(answer)) - 1, places"),
    ("74", "WEIGHTS], 1)[0].argmax(-1)", "WEIGHTS], 1)[0].argmin(-1)"),
    ("76", "/ own.sum(-1)).mean(-1)", ").mean(-1)"),
    ("75", "- row.cumsum(-1) + row", "- row.cumsum(-1)"),
    ("75", "best = most + row.cumsum(-1)", "best = most"),
    ("77", "across(seen).argmax(-1)", "across(seen).argmin(-1)"),
    ("77", "return -scores[hidden]", "return scores[hidden]"),
    ("79", "nlargest(12", "nsmallest(12"),
    ("79", "hb.prune(found, ways[name])", "hb.prune(found, ways[name][1:])"),
    ("78", "g.split(counts)", "g.flip(0).split(counts)"),
    ("78", "else 0 :].mean(1)", "else 1 :].mean(1)"),
    ("73", "first + seen.argmax(-1)", "first + seen.argmin(-1)"),
    ("73", "offsets[answer - asks + 20, question]", "offsets[answer - asks + 19, question]"),
    ("73", "of[:asks].T", "of[: asks - 1].T"),
    ("72", ".sum((2, 3)) / 2", ".sum((2, 3))"),
    ("72", "up = up.repeat_interleave(size, 0)", "up = up.repeat(size, 1, 1)"),
    ("71", "[a[..., 1:, 0], norm", "[a[..., 1:, 1], norm"),
    ("71", "back < window - kept", "back <= window - kept"),
)


def cells(page: str) -> list[str]:
    """The code of a page, its parameters those of `smoke`."""
    (path,) = paths.NOTEBOOKS.glob(f"{page}_*.ipynb")
    given = yaml.safe_load(Path(paths.NOTEBOOKS, "parameters", "smoke.yml").read_text("utf-8"))
    code = [each for each in nbformat.read(path, as_version=4).cells if each.cell_type == "code"]
    (place,) = (at for at, each in enumerate(code) if "parameters" in each.metadata.get("tags", []))
    found = [each.source + "\n" for each in code]
    found[place] += "".join(f"{name} = {value!r}\n" for name, value in given[int(page)].items())
    return found


@pytest.mark.parametrize("page", sorted({page for page, *_ in CHANGES}))
def test_a_changed_measure_fails_its_page(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headbook.plots.tabs.tabs", lambda _: None)  # drawn after every assert
    wanted = {shown: changed for of, shown, changed in CHANGES if of == page}
    rest, names, missed = cells(page), {}, []
    assert all(any(shown in cell for cell in rest) for shown in wanted)
    while wanted:
        for shown in [each for each in wanted if each in rest[0]]:
            changed = "".join(rest).replace(shown, wanted.pop(shown))
            if ends(changed, names) != FAILED:
                missed.append(shown)
        if wanted:
            exec(compile(rest.pop(0), page, "exec"), names)
    assert not missed
