"""B15: batch reads of a table as a PySpark program asks for them, beside Parquet's, delta-spark's and Sail's."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.delta_spark_turns import Peer, compare_medians, peers, take_turns, time_action
from benchmarks.measuring import Comparison, show
from benchmarks.spark_lake import local_session
from engine.delta import enable

ROWS, COLUMNS = 4_000_000, 50
TABLES = {
    "plain": ("", "sum(id), max(name), sum(v)", "", False),
    "with vectors on 1 % of rows": ("", "sum(id), max(name), sum(v)", "", True),
    "names mapped, with vectors": ("mapped", "sum(id), max(name), sum(v)", "", True),
    "one of 8 partitions": ("partitioned", "sum(id), max(name), sum(v)", "p = 3", False),
    f"3 of {COLUMNS} columns": ("wide", "sum(id), sum(c7), sum(c31)", "", False),
    "ten rows of 40 files by id": ("files", "sum(id), max(name)", "id BETWEEN 77 AND 86", False),
}
"""What is read: the layout, what is selected, which rows, and whether every hundredth is deleted."""


def measure() -> list[Comparison]:
    """Every kind of read, in turns; the results of all must be equal."""
    spark = local_session()
    enable(spark)
    results: list[Comparison] = []
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        others = peers(stack, Path(scratch))
        for number, what in enumerate(TABLES):
            results += _measure_reads(spark, others, Path(scratch) / str(number), what)
    return results


def _measure_reads(
    spark: SparkSession, others: Mapping[str, Peer], place: Path, what: str
) -> list[Comparison]:
    layout, selected, condition, masked = TABLES[what]
    _fill(spark, place, layout)
    rows: dict[str, object] = {}
    files = [str(path) for path in place.rglob("*.parquet") if "_delta_log" not in path.parts]

    def parquet() -> None:
        frame = spark.read.option("basePath", str(place)).parquet(*files)
        rows["parquet"] = _answer(frame.filter(condition or "true"), selected)

    if masked:
        spark.sql(f"DELETE FROM delta.`{place}` WHERE id % 100 = 7")

    def ours() -> None:
        frame = spark.read.format("delta").load(str(place))
        rows["engine"] = _answer(frame.filter(condition or "true"), selected)

    ways: dict[str, Callable[[], float]] = {"engine": time_action(ours)}
    if layout in {"", "wide", "partitioned"}:
        ways["spark.read.parquet"] = time_action(parquet)
    text = f"SELECT {selected} FROM delta.`{place}` WHERE {condition or 'true'}"
    for name, peer in others.items():
        ways[name] = _ask_peer(name, peer, text, rows)
    times = take_turns(ways)
    for name in others:
        assert rows[name] == rows["engine"], rows  # noqa: S101
    assert masked or "parquet" not in rows or rows["parquet"] == rows["engine"], rows  # noqa: S101
    read = f"B15 read {ROWS:,} rows, {what}"
    return compare_medians(read, times, ["spark.read.parquet", *others])


def _ask_peer(name: str, peer: Peer, text: str, rows: dict[str, object]) -> Callable[[], float]:
    def ask() -> float:
        answer = peer.ask(sql=[text])
        rows[name] = answer["rows"]
        return float(answer["took"])

    return ask


def _answer(frame: object, selected: str) -> list[list[object]]:
    chosen = frame.selectExpr(*selected.split(", "))  # type: ignore[attr-defined]
    return [list(row) for row in chosen.collect()]


def _fill(spark: SparkSession, place: Path, layout: str) -> None:
    columns = ["id", "concat('name ', CAST(id % 1000 AS STRING)) AS name", "0.5D AS v"]
    rows = ROWS // 10 if layout == "wide" else ROWS
    if layout == "wide":
        columns += [f"id * {i} AS c{i}" for i in range(COLUMNS - 3)]
    if layout == "partitioned":
        columns.append("id % 8 AS p")
    frame = spark.range(0, rows, 1, 40 if layout == "files" else 2).selectExpr(*columns)
    writer = frame.write.format("delta").option("delta.enableDeletionVectors", "true")
    if layout == "mapped":
        writer = writer.option("delta.columnMapping.mode", "name")
    if layout == "partitioned":
        writer = writer.partitionBy("p")
    writer.mode("append").save(str(place))


if __name__ == "__main__":
    show(measure())
