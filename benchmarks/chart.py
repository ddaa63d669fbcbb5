"""The chart of the README, from what `results.md` says: needs the extra `bench`."""

import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.results_file import read_parts

_ROW = re.compile(
    r"\| (?P<what>.+?) \| (?P<ours>[\d.,]+)(?: s)? \| (?P<name>[^|:]+): (?P<other>[\d.,]+)(?: s)? \|"
)
_LANDED = "8 writers × 6 updates of other rows of one file: landed"
_TIMES = {
    "UPDATE of one row of 10,000, warm": "UPDATE of 1 row",
    "DELETE of one row of 10,000, warm": "DELETE of 1 row",
    "MERGE of ten rows of 10,000, warm": "MERGE of 10 rows",
    "B7 DELETE of 0.01 % of 10,000,000 rows in 10 files": "DELETE of 1,000 rows\nof 10,000,000",
    "B8 MERGE of 1 % of 10,000,000 rows, 90 % updates": "MERGE of 100,000 rows\ninto 10,000,000",
    "B15 read 4,000,000 rows, with vectors on 1 % of rows": "read of 4,000,000 rows,\n1 % deleted",
}
_COLORS = {
    "this engine": "#2f6feb",
    "delta-spark": "#d98324",
    "deltalake": "#8a6fd1",
    "Sail": "#3f9f7f",
}
INK = "#7d8590"  # to be read on white and on black

Measured = Mapping[str, Mapping[str, float]]
"""By what was measured, and by engine."""


def draw(path: Path) -> None:
    """Two panels: what landed of 48, and seconds; without the library it is left out aloud."""
    if find_spec("matplotlib") is None:
        sys.stderr.write("The chart is left out: pip install matplotlib\n")
        return
    from matplotlib import rc_context  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415

    measured = _read_measurements()
    settings = {"svg.fonttype": "path", "svg.hashsalt": "benchmarks", "font.size": 10}
    with rc_context(settings):
        figure = Figure(figsize=(10, 5.2), layout="constrained")
        landed, seconds = figure.subplots(1, 2, width_ratios=(1, 2.2))
        _bars(landed, {_LANDED: measured.get(_LANDED, {})}, [""], "{:,.0f}")
        landed.set_title("8 writers of one file:\nof 48 updates landed", color=INK)
        times = {what: measured[what] for what in _TIMES if what in measured}
        _bars(seconds, times, [_TIMES[what] for what in times], "{:,.3g} s")
        landed.set_xticks([])
        landed.tick_params(length=0)
        seconds.set_xscale("log")
        seconds.xaxis.set_major_formatter("{x:g} s")
        seconds.set_title("seconds (logarithmic)", color=INK)
        handles, names = seconds.get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside lower center", ncols=4, frameon=False, labelcolor=INK
        )
        figure.savefig(path, transparent=True, metadata={"Date": None})


def _bars(axes: Any, measured: Measured, labels: Sequence[str], form: str) -> None:  # noqa: ANN401
    height = 0.8 / len(_COLORS)
    for place, (name, color) in enumerate(_COLORS.items()):
        rows = [(row, of[name]) for row, of in enumerate(measured.values()) if name in of]
        places = [row + place * height for row, _ in rows]
        bars = axes.barh(places, [value for _, value in rows], height, label=name, color=color)
        texts = [form.format(value) for _, value in rows]
        axes.bar_label(bars, texts, padding=3, color=INK, fontsize=8)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(labels))], labels)
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.tick_params(colors=INK)
    axes.spines[:].set_visible(False)


def _read_measurements() -> Measured:
    found: dict[str, dict[str, float]] = {}
    for part in read_parts().values():
        for row in _ROW.finditer(part):
            what = row["what"].partition(" (")[0]
            of = found.setdefault(what, {})
            of.setdefault("this engine", _number(row["ours"]))
            of.setdefault(row["name"].strip(), _number(row["other"]))
    return found


def _number(text: str) -> float:
    return float(text.replace(",", ""))
