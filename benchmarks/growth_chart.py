"""The curves of `docs/growth.md`: needs the extra `bench`."""

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from benchmarks.chart import INK

_COLORS = ("#2f6feb", "#d98324", "#8a6fd1", "#3f9f7f")


def draw_curves(curves: Mapping[str, Mapping[int, Mapping[str, float]]], path: Path) -> bool:
    """Draw a panel for each curve, both axes logarithmic; return False without the library."""
    if find_spec("matplotlib") is None:
        sys.stderr.write("The curves are left out: pip install matplotlib\n")
        return False
    from matplotlib import rc_context  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415

    settings = {"svg.fonttype": "path", "svg.hashsalt": "benchmarks", "font.size": 10}
    with rc_context(settings):
        figure = Figure(figsize=(11, 4), layout="constrained")
        panels = figure.subplots(1, len(curves), squeeze=False)[0]
        for panel, (title, curve) in zip(panels, curves.items(), strict=True):
            sizes = list(curve)
            operations = list(curve[sizes[0]])
            for name, color in zip(operations, _COLORS, strict=False):
                times = [curve[size][name] for size in sizes]
                panel.plot(sizes, times, marker="o", label=name, color=color)
            least = min(curve[sizes[0]].values())
            linear = [least * size / sizes[0] for size in sizes]
            panel.plot(sizes, linear, "--", label="linear", color=INK, linewidth=1)
            panel.set(xscale="log", yscale="log")
            panel.set_ylim(top=2 * max(max(times.values()) for times in curve.values()))
            panel.yaxis.set_major_formatter("{x:,.10g}")
            panel.xaxis.set_major_formatter("{x:,.10g}")
            panel.set_xlabel(what_grows(title), color=INK)
            panel.set_ylabel("milliseconds", color=INK)
            panel.set_title(title, color=INK)
            panel.tick_params(colors=INK)
            panel.spines[:].set_color(INK)
            panel.legend(frameon=False, labelcolor=INK, fontsize=8)
        figure.savefig(path, transparent=True, metadata={"Date": None})
    return True


def what_grows(title: str) -> str:
    """Return what the sizes of a curve count: `threads` of "Threads that write to one table"."""
    return title.partition(",")[0].partition(" that ")[0].lower()
