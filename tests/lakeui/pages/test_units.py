"""Numbers, families and charts, without a database."""

from datetime import UTC, datetime, timedelta

import pytest

from lakeui.catalog.models import Commit
from lakeui.catalog.units import MINUS, format_ago, format_bytes, format_duration
from lakeui.conflicts.commit_timeline import timeline_of
from lakeui.monitoring.recent_conflicts import PartitionCost
from lakeui.pages.charts.bars import draw_histogram, draw_timeline
from lakeui.pages.charts.heat import draw_heat, draw_partition_heat
from lakeui.pages.charts.ruler import draw_ruler
from lakeui.pages.charts.swim_shapes import clock_texts
from lakeui.pages.file_names import file_head
from lakeui.pages.operations import name_of, what_of
from lakeui.pages.templatetags.lake import short_path

NOW = datetime(2026, 11, 20, 14, 32, 7, tzinfo=UTC)
MIB = 1024**2


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1 KiB"), (9_856_000, "9.4 MiB"), (-66_900_000, f"{MINUS}63.8 MiB"),
     (103_508_711_424, "96.4 GiB"), (4_155_366_490_112, "3.78 TiB"), (2**70, "1,024 EiB")],
)  # fmt: skip
def test_bytes_are_shown_in_iec_units(size, text):
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (812, "812 ms"), (999.6, "1.0 s"), (9_400, "9.4 s"), (9_960, "10 s"), (59_400, "59 s"), (462_000, "7 min 42 s"),
     (9_684_000, "2 h 41 min"), (93_600_000, "1 d 2 h"), (60_000, "1 min")],
)  # fmt: skip
def test_spans_have_two_units_at_most(ms, text):
    assert format_duration(ms) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (12, "12 s ago"), (65, "1 min 5 s ago"), (1500, "25 min ago"), (5000, "1 h 23 min ago"),
     (20_000, "5 h ago"), (300_000, "3 d ago"), (-240, "in 4 min"), (-2_591_990, "in 30 d")],
)  # fmt: skip
def test_relative_times_are_coarse_where_they_are_old(seconds, text):
    assert format_ago(NOW - timedelta(seconds=seconds), NOW) == text


def test_a_full_ruler_has_a_tick_each_version_and_a_cross_each_loss():
    commits = [(v, "WRITE") for v in range(4654, 4814)]
    ruler = draw_ruler(commits, [4797, 4797, 12, None], here=4813)
    assert (len(ruler.ticks), ruler.first, ruler.last) == (160, 4654, 4813)
    assert [(c.version, c.count) for c in ruler.crosses] == [(4797, 2)]
    assert ruler.ticks[-1].left == pytest.approx(99.6875)


@pytest.mark.parametrize(
    ("here", "anchor", "x"),
    [(4654, "start-at", 0), (4733, "mid", 49.6875), (4809, "end", 98.8875), (4813, "end", 100)],
)
def test_the_label_of_where_you_are_stays_inside_the_ruler(here, anchor, x):
    ruler = draw_ruler([(v, "WRITE") for v in range(4654, 4814)], [], here=here)
    assert ruler.here_anchor == anchor
    assert ruler.here_label_x == pytest.approx(x)


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("part-0.parquet", "part-0.parquet"),
        ("part-00017-1f0c8a52-3f0e-4d0c.parquet", "part-00017-1f0c8a52-3…"),
        ("day=2026-11-20/part-0.parquet", "day=2026-11-20/part-0.parquet"),
        ("country=Lummerland/day=2026-11-20/p", "…mmerland/day=2026-11-20/p"),
    ],
)
def test_a_shortened_path_keeps_the_part_that_distinguishes_files(path, short):
    assert short_path(path) == short


def test_a_young_table_fills_the_whole_ruler():
    ruler = draw_ruler([(0, "CREATE TABLE"), (1, "WRITE")], [], here=1)
    assert [tick.left for tick in ruler.ticks] == [25, 75]


@pytest.mark.parametrize(
    ("costs", "unit", "texts"),
    [
        ((400, 7_200, 42_000), "s", ["<1", "7", "42"]),
        ((400, 7_200, 90_000), "min", ["<1", "<1", "2"]),
    ],
)
def test_a_heat_map_counts_in_seconds_where_every_minute_would_be_less_than_one(costs, unit, texts):
    hour = NOW.replace(minute=0, second=0, microsecond=0)
    heat = draw_heat(
        {("UPDATE × DELETE", hour - timedelta(hours=n)): c for n, c in enumerate(costs)}, NOW
    )
    assert heat.unit == unit
    assert [cell.text for cell in reversed(heat.cells) if cell.text] == texts
    rows = [
        PartitionCost(1, "sales.orders", f"day={n}", "UPDATE", "DELETE", 1, c)
        for n, c in enumerate(costs)
    ]
    partitions = draw_partition_heat(rows)
    assert partitions.unit == unit
    assert [row.cells[0].text for row in reversed(partitions.rows)] == texts


def test_times_have_seconds_where_minutes_repeat_and_days_where_there_are_several():
    at = NOW.replace(hour=9, minute=30, second=0)
    assert clock_texts([at, at + timedelta(minutes=1)]) == ["09:30", "09:31"]
    assert clock_texts([at, at + timedelta(seconds=7)]) == ["09:30:00", "09:30:07"]
    assert len(set(clock_texts([at, at + timedelta(days=1)]))) == 2
    assert clock_texts([]) == []
    in_one_second = [at + timedelta(milliseconds=90 * n) for n in range(10)]
    assert clock_texts(in_one_second) == ["09:30:00", *[""] * 9]


def test_a_table_without_versions_has_no_ruler():
    assert draw_ruler([], [], here=None) is None


def test_a_timeline_counts_only_commits_within_its_span():
    commits = [(NOW - timedelta(minutes=m), "MERGE") for m in (1, 2, 40, 3000)]
    lost_at = [NOW - timedelta(minutes=2), NOW - timedelta(days=3)]
    timeline = timeline_of("24h", NOW, [*commits, (None, "WRITE")], lost_at)
    assert (timeline.commit_count, timeline.aborted) == (3, 1)
    assert [dict(bucket.operations) for bucket in timeline.buckets] == [{"MERGE": 1}, {"MERGE": 2}]


@pytest.mark.parametrize("name", ["6h", "24h", "7d", "30d"])
def test_bars_stay_inside_the_chart(name):
    commits = [(NOW - timedelta(hours=h), "WRITE") for h in range(700)] * 7
    drawn = draw_timeline(timeline_of(name, NOW, commits, []), (NOW - timedelta(days=90), NOW))
    assert drawn.window
    assert drawn.window[0] >= 0
    assert sum(drawn.window) <= 100.01
    assert all(bar.x >= 0 and bar.x + drawn.bar_width <= 100.01 for bar in drawn.bars)
    assert all(0 <= bar.y <= 80 and bar.height > 0 for bar in drawn.bars)


def test_files_are_counted_once_in_bins_that_cover_every_size():
    sizes = [0, 1, 65_536, 31 * MIB, 32 * MIB, 5 * 1024**3]
    drawn = draw_histogram(sizes, small_bytes=32 * MIB)
    assert sum(b.count for b in drawn.bins) == len(sizes)
    assert sum(b.count for b in drawn.bins if b.is_small) == 4


@pytest.mark.parametrize(
    ("written", "shown"),
    [("delete", "DELETE"), ("set_properties", "SET PROPERTIES"), ("CREATE TABLE", "CREATE TABLE")],
)
def test_an_operation_shows_as_the_log_writes_it(written, shown):
    assert name_of(written) == shown


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("day=3/part-00017-1f0c8a52-3f0e.c000.snappy.parquet", "part-00017"),
        ("part-00000-1f0c8a52-3f0e.c000.snappy.parquet", "part-00000-1f0c"),
        (
            "d=1/part-00000-109c2511-ad4b-4ce9-9886-4784e0aaeea3-a57002ee.c000.snappy.parquet",
            "part-00000-a570",
        ),
        ("part-00000.parquet", "part-00000"),
        ("0-8d1ac1a2-77aa.parquet", "0-8d1ac1a2"),
        ("a_name_that_is_longer_than_there_is_room.parquet", "a_name_that_is_longe"),
    ],
)
def test_a_file_is_named_by_the_part_that_distinguishes_it(path, head):
    assert file_head(path) == head


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"isManaged": False, "auto": "false", "partitionBy": "[]"}, ""),
        ({"columns": '[{"column": {"name": "note", "type": "string"}, "position": ""}]'}, "note string"),
        ({"columns": '["a", "b"]'}, "a, b"),
        ({"column": '{"name": "v", "type": "string", "metadata": {"comment": "k"}}'}, "v string"),
        ({"epochId": 7, "queryId": "lake-stream:s3://lake/returns:7f09"}, "epoch 7 of s3://lake/returns"),
        ({"epochId": 7, "queryId": "7f0936b0-5292-4258-bd9e-ce81603d7de6"}, "epoch 7 of 7f0936b0"),
        ({"oldColumnPath": "a", "newColumnPath": "b"}, "oldColumnPath a, newColumnPath b"),
    ],
)  # fmt: skip
def test_the_parameters_of_a_version_are_shown_without_empty_ones(parameters, text):
    assert what_of(Commit(operation_parameters=parameters)) == text
