"""B7 and B8: DELETE and UPDATE of 0.01 % of a table, MERGE of 1 %, append of 100 rows, beside others.

delta-spark and Sail change copies of their own, in turns; the rows left are compared. Sail writes no
deletion vectors: its copy has none.
"""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.delta_spark_turns import (
    REPETITIONS,
    WARM_UP,
    Peer,
    compare_medians,
    peers,
    take_turns,
    time_action,
)
from benchmarks.measuring import Comparison, show
from benchmarks.spark_lake import local_session
from engine.delta import enable

ROWS, FILES = 10_000_000, 10


MERGE = (
    "MERGE INTO {} AS t USING changes AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v,"
    " name = s.name WHEN NOT MATCHED THEN INSERT (id, name, v) VALUES (s.id, s.name, s.v)"
)
Statements = Mapping[str, Callable[[int], list[str]]]
"""By what is measured: what is done at each turn, with `{}` for the table."""


def measure() -> list[Comparison]:
    """Every kind of change, in turns."""
    return measure_statements(_statements(), REPETITIONS, WARM_UP)


def measure_statements(statements: Statements, repetitions: int, warm_up: int) -> list[Comparison]:
    """Each of the statements on tables of 10,000,000 rows, one after the other; the rows left are the same."""
    spark = local_session()
    enable(spark)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        others = peers(stack, Path(scratch))
        places = {name: Path(scratch) / name for name in ("engine", *others)}
        for name, place in places.items():
            _fill(spark, place, vectors=name != "Sail")
        results: list[Comparison] = []
        for what, text in statements.items():
            ways = {"engine": _time_ours(spark, text, places["engine"])}
            for name, peer in others.items():
                ways[name] = _turn_by_turn(text, places[name], _ask_peer(peer))
            results += compare_medians(what, take_turns(ways, repetitions, warm_up), list(others))
        left = "SELECT count(*), count(id), sum(id), sum(v) FROM delta.`{}`"
        ours = [list(row) for row in spark.sql(left.format(places["engine"])).collect()]
        for name, peer in others.items():
            theirs = peer.ask(sql=[left.format(places[name])])["rows"]
            assert ours == theirs, (name, ours, theirs)  # noqa: S101
        return results


def _ask_peer(peer: Peer) -> Callable[[list[str]], float]:
    return lambda sql: float(peer.ask(sql=sql)["took"])


def _statements() -> Statements:
    share = f"of 0.01 % of {ROWS:,} rows in {FILES} files"
    return {
        f"B7 DELETE {share}": lambda turn: [f"DELETE FROM {{}} WHERE id % 10007 = {turn}"],
        f"B7 UPDATE {share}": lambda turn: [
            f"UPDATE {{}} SET v = v + 1 WHERE id % 10007 = {100 + turn}"
        ],
        f"B8 MERGE of 1 % of {ROWS:,} rows, 90 % updates": lambda turn: [
            f"CREATE OR REPLACE TEMP VIEW changes AS SELECT id * 100 + {turn} + IF(id % 10 = 0,"
            f" {ROWS}, 0) AS id, 'new' AS name, 7.5D AS v FROM range({ROWS // 100})",
            MERGE,
        ],
        "append of 100 rows": lambda turn: [
            f"INSERT INTO {{}} SELECT id + {3 * ROWS + 100 * turn} AS id, 'b' AS name, 1D AS v"
            " FROM range(100)"
        ],
    }


def _time_ours(
    spark: SparkSession, text: Callable[[int], list[str]], place: Path
) -> Callable[[], float]:
    def run(texts: list[str]) -> float:
        return time_action(lambda: [spark.sql(one).collect() for one in texts])()

    return _turn_by_turn(text, place, run)


def _turn_by_turn(
    text: Callable[[int], list[str]], place: Path, run: Callable[[list[str]], float]
) -> Callable[[], float]:
    turns = count()
    return lambda: run([one.format(f"delta.`{place}`") for one in text(next(turns))])


def _fill(spark: SparkSession, place: Path, *, vectors: bool) -> None:
    frame = spark.range(0, ROWS, 1, FILES).selectExpr(
        "id", "concat('name ', CAST(id % 1000 AS STRING)) AS name", "0.5D AS v"
    )
    writer = frame.write.format("delta").option("delta.enableDeletionVectors", str(vectors).lower())
    writer.mode("append").save(str(place))


if __name__ == "__main__":
    show(measure())
