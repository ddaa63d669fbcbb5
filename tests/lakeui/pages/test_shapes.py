"""Shapes rendered outside templates: texts of logs and users cannot become markup there either."""

import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest

from lakeui.pages.charts.bars import draw_sparkline
from lakeui.pages.charts.heat import draw_heat
from lakeui.pages.charts.lanes import LaneStrip, StripTick
from lakeui.pages.charts.ruler import draw_ruler
from lakeui.pages.charts.swim_shapes import BarLabel, DrawnBar, SwimChart
from lakeui.pages.templatetags.shapes import (
    heat_cells,
    ruler_ticks,
    spark_shapes,
    strip_ticks,
    swim_bars,
)

HOSTILE = "\"><script>alert(1)</script>&'<"
NOW = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
HOUR = NOW.replace(minute=0)


def bar(**fields):
    defaults = {
        "key": "v7", "family": "merge", "shape": "solid", "x": 10.0, "width": 20.0, "y": 40,
        "begins_before": False, "is_estimated": False, "text": HOSTILE, "title": HOSTILE,
        "end_x": 30.0, "label": BarLabel(HOSTILE, 10.0, "above", is_spare=False),
    }  # fmt: skip
    return DrawnBar(**defaults | fields)


def chart(*bars):
    nothing = dict.fromkeys(
        ("lanes", "joints", "aborted_links", "joint_links", "columns", "bands", "times", "swaps"),
        (),
    )
    sizes = {"now_x": None, "band_width": 1.0, "height": 90, "bottom": 60, "hidden": 0}
    return SwimChart(**nothing, **sizes, bars=bars, min_width_class="")


def check_markup(markup):
    """Check that the markup is well formed and has only the elements of charts."""
    root = ET.fromstring(f"<svg>{markup}</svg>")  # noqa: S314 - our own
    assert {element.tag for element in root.iter()} <= {
        "svg", "a", "g", "title", "rect", "line", "text", "path", "circle",
    }  # fmt: skip
    return root


def test_bars_carry_hostile_words_as_words():
    bars = [
        bar(key=HOSTILE),
        bar(shape="lost", is_estimated=True),
        bar(shape="running", begins_before=True, label=None),
        bar(shape="blind", label=BarLabel(HOSTILE, 5.0, "before", is_spare=True)),
    ]
    root = check_markup(swim_bars(chart(*bars), f"?writer={HOSTILE}&pick=", HOSTILE))
    assert [element.text for element in root.iter("title")] == [HOSTILE] * 4
    assert root[0].get("href") == f"?writer={HOSTILE}&pick={HOSTILE}#picked"
    assert [element.get("class") for element in root.iter("rect")].count("pick") == 1


def test_a_tick_of_the_ruler_leads_to_its_version_and_names_a_hostile_operation():
    root = check_markup(ruler_ticks(draw_ruler([(3, "MERGE"), (4, HOSTILE)], [], 4), 12))
    assert [element.get("href") for element in root] == [
        "/tables/12/history/3/",
        "/tables/12/history/4/",
    ]
    assert root[1].find("title").text == f"v4 {HOSTILE}"


def test_a_bucket_of_the_strip_leads_to_its_versions_and_marks_losses():
    ticks = (StripTick(0.0, 5.0, 21.0, 7, HOSTILE, 0.5), StripTick(1.0, 26.0, 0.0, None, "", None))
    strip = LaneStrip(ticks, 0.8, 1.0, None, 1.0, "24 h", is_capped=False, base=26)
    root = check_markup(strip_ticks(strip, f"?by={HOSTILE}&last="))
    assert root.find("a").get("href") == f"?by={HOSTILE}&last=7"
    assert len(list(root.iter("path"))) == 1


def test_heat_names_hostile_pairs_as_words():
    root = check_markup(heat_cells(draw_heat({(HOSTILE, HOUR): 90_000}, NOW)))
    assert [element.text.partition(", ")[0] for element in root.iter("title")] == [HOSTILE]


@pytest.mark.parametrize("lost", [{}, {HOUR: 1}])
def test_a_day_has_a_stick_each_busy_hour_and_a_cross_each_hour_that_lost(lost):
    commits = {HOUR: 4, HOUR - timedelta(hours=3): 1}
    root = check_markup(spark_shapes(draw_sparkline(commits, lost, NOW)))
    assert (len(list(root.iter("rect"))), len(list(root.iter("path")))) == (2, len(lost))
