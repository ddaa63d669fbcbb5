"""Shapes that charts repeat by the hundred, written at once: a template takes ten times as long.

Numbers and names of shapes are the charts' own. Text by people or logs, and every address, is
escaped where it is inserted.
"""

from collections.abc import Iterator
from html import escape

from django import template
from django.utils.safestring import SafeString

from lakeui.catalog.units import format_position
from lakeui.pages.charts.bars import Sparkline
from lakeui.pages.charts.heat import HeatMap, HeatMapCell
from lakeui.pages.charts.lanes import LaneStrip, StripTick
from lakeui.pages.charts.ruler import Ruler, RulerTick
from lakeui.pages.charts.swim_shapes import BarLabel, DrawnBar, SwimChart
from lakeui.pages.templatetags.lake import pages_of_versions

register = template.Library()

_CROSS = '<path class="cross" d="M-3.6 -3.6L3.6 3.6M3.6 -3.6L-3.6 3.6"/>'
_SMALL_CROSS = "M-2.5 -2.5L2.5 2.5M2.5 -2.5L-2.5 2.5"
_PLACES = {"before": ("-10", "-11", " end"), "beside": ("11", "4", "")}


@register.simple_tag
def ruler_ticks(ruler: Ruler, table_pk: int) -> SafeString:
    """Render a tick per version, with a link to its page."""
    pages = escape(pages_of_versions(table_pk))
    width = format_position(ruler.hit_width)
    return SafeString("".join(_ruler_tick(tick, pages, width) for tick in ruler.ticks))


def _ruler_tick(tick: RulerTick, pages: str, width: str) -> str:
    x = format_position(tick.left)
    return (
        f'<a href="{pages}{tick.version}/" tabindex="-1" class="op-{tick.family}">'
        f"<title>v{tick.version} {escape(tick.operation)}</title>"
        f'<rect class="hit" x="{format_position(tick.hit_left)}" y="0" width="{width}" height="36"/>'
        f'<line class="tick" x1="{x}" x2="{x}" y1="{tick.top}" y2="32"/></a>'
    )


@register.simple_tag
def strip_ticks(strip: LaneStrip, goto: str) -> SafeString:
    """Render a bar per bucket of time, linked to its versions, and a cross per aborted attempt."""
    widths = format_position(strip.step), format_position(strip.tick_width)
    parts = (part for tick in strip.ticks for part in _strip_tick(tick, escape(goto), widths))
    return SafeString("".join(parts))


def _strip_tick(tick: StripTick, goto: str, widths: tuple[str, str]) -> Iterator[str]:
    x, (step, width) = format_position(tick.x), widths
    if tick.last is not None:
        yield (
            f'<a tabindex="-1" href="{goto}{tick.last}">'
            f"<title>{escape(tick.title)}; show those up to v{tick.last}</title>"
            f'<rect class="hit" x="{x}" y="0" width="{step}" height="28"/>'
            f'<rect class="pulse-bar" x="{x}" y="{tick.y:.1f}" width="{width}" height="{tick.height:.1f}"/></a>'
        )
    if tick.cross_x is not None:
        yield (
            f'<svg x="{format_position(tick.cross_x)}" y="5" overflow="visible" class="glyphs">'
            f'<path class="cross" stroke-width="1.5" d="{_SMALL_CROSS}"/></svg>'
        )


@register.simple_tag
def spark_shapes(spark: Sparkline) -> SafeString:
    """Render a bar per hour with commits, and a cross per hour with aborted attempts."""
    sticks = (
        f'<rect class="pulse-bar" x="{stick.x}" y="{stick.y}" width="3.2%" height="{stick.height}"/>'
        for stick in spark.sticks
    )
    crosses = (
        f'<svg x="{x}" y="3" overflow="visible"><path class="cross" stroke-width="1.6" d="{_SMALL_CROSS}"/></svg>'
        for x in spark.crosses
    )
    return SafeString("".join((*sticks, *crosses)))


@register.simple_tag
def heat_cells(heat: HeatMap) -> SafeString:
    """Render a cell per pair and column: ink for cost, and its figure if there is one."""
    return SafeString("".join(_heat_cell(cell, heat.cell_width) for cell in heat.cells))


def _heat_cell(cell: HeatMapCell, width: float) -> str:
    square = (
        f'<rect class="heat-{cell.heat}" x="{format_position(cell.x)}" y="{cell.y}" '
        f'width="{format_position(width)}" height="22" rx="1"'
    )
    if not cell.text:
        return f"{square}/>"
    ink = " heat-on" if cell.heat > 3 else ""
    return (
        f"{square}><title>{escape(cell.title)}</title></rect>"
        f'<text class="mid heat-t{ink}" x="{format_position(cell.text_x)}" y="{cell.text_y}">'
        f"{escape(cell.text)}</text>"
    )


@register.simple_tag
def swim_bars(chart: SwimChart, pick: str, picked_key: str) -> SafeString:
    """Render a bar per transaction, linked to its path; then their ends, above all bars."""
    bars = (_bar(bar, escape(pick), is_picked=bar.key == picked_key) for bar in chart.bars)
    return SafeString("".join((*bars, *map(_end, chart.bars))))


def _bar(bar: DrawnBar, pick: str, *, is_picked: bool) -> str:
    x, y, top = format_position(bar.x), bar.y, bar.y - 5
    guess, start = "", ""
    if bar.is_estimated:
        width = format_position(bar.guess_width)
        guess = f'<rect class="bar-guess" x="{x}" y="{top}" width="{width}" height="10"/>'
        start = f'<svg x="{x}" y="{y}" overflow="visible"><text class="end t-on" x="-3" y="4">≈</text></svg>'
    elif not bar.begins_before:
        start = f'<line class="start" x1="{x}" x2="{x}" y1="{y - 8}" y2="{y + 8}"/>'
    frame = (
        f'<rect class="pick" x="{x}" y="{y - 8}" width="{format_position(bar.width)}" height="16"/>'
    )
    return (
        f'<a class="op-{bar.family}" href="{pick}{escape(bar.key)}#picked" tabindex="-1">'
        f"<title>{escape(bar.title)}</title>{guess}"
        f'<rect {_fill_attributes(bar)} x="{format_position(bar.sure_x)}" y="{top}" '
        f'width="{format_position(bar.sure_width)}" height="10"/>'
        f"{start}{frame if is_picked else ''}{_label(bar.label, y) if bar.label else ''}</a>"
    )


def _fill_attributes(bar: DrawnBar) -> str:
    if bar.shape == "lost":
        return f'class="bar-lost" fill="url(#hatch-{bar.family})"'
    if bar.shape == "running":
        return f'fill="url(#open-{bar.family})"'
    return 'class="bar-blind"' if bar.shape == "blind" else 'class="bar"'


def _label(label: BarLabel, y: int) -> str:
    across, down, anchor = _PLACES.get(label.place, ("0", "-11", ""))
    spare = " spare-wide" if label.is_spare else ""
    return (
        f'<svg x="{format_position(label.x)}" y="{y}" overflow="visible">'
        f'<text class="t-on{anchor}{spare}" x="{across}" y="{down}">{escape(label.text)}</text></svg>'
    )


def _end(bar: DrawnBar) -> str:
    x = format_position(bar.end_x)
    if bar.shape == "lost":
        shape = f'<svg x="{x}" y="{bar.y}" overflow="visible"><circle class="knock" r="7.5"/>{_CROSS}</svg>'
    elif bar.shape == "running":
        shape = f'<circle class="live" cx="{x}" cy="{bar.y}" r="4"/>'
    else:
        shape = f'<circle class="commit" cx="{x}" cy="{bar.y}" r="5.5"/>'
    return f'<g class="glyphs op-{bar.family}">{shape}</g>'
