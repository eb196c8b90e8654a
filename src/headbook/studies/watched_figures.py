"""The four metrics by layer for variants of one model."""

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headbook.heads.four_metrics import ARTICLE
from headbook.studies.results import Tables

MARKERS = "osv^DPX*"


def draw_variants(tables: Tables) -> Figure:
    """The four metrics in their scale-free form by layer, a line a model, mean over seeds; dashed
    where heads share keys and values."""
    rows = tables["diversity"]
    names = list(rows["variant"].unique())
    rows = rows.groupby(["metric", "variant", "layer"], as_index=False)["value"].mean()
    figure = Figure(figsize=(9.6, 7.2 + 0.12 * len(names)), layout="constrained")
    for axis, metric in zip(figure.subplots(2, 2).flat, ARTICLE, strict=True):
        for number, name in enumerate(names):
            here = rows[(rows["metric"] == metric) & (rows["variant"] == name)]
            axis.plot(here["layer"], here["value"], marker=MARKERS[number % len(MARKERS)], ms=4.5,
                      lw=1.2, ls="--" if "shared" in name else "-", color=f"C{number}",
                      label=name)  # fmt: skip
        axis.set(title=metric, xlabel="layer")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  frameon=False)  # fmt: skip
    return figure
