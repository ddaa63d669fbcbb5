"""B8: MERGE of small and large sources, and of skewed and null keys, into 10,000,000 rows, beside others.

It works as `large_changes` does.
"""

from benchmarks import large_changes
from benchmarks.large_changes import MERGE, Statements
from benchmarks.measuring import Comparison, show

REPETITIONS, WARM_UP = 5, 1


def measure() -> list[Comparison]:
    """Every source, in turns."""
    return large_changes.measure_statements(_statements(), REPETITIONS, WARM_UP)


def _statements() -> Statements:
    rows = large_changes.ROWS
    into = f"into {rows:,}"
    return {
        f"B8 MERGE of {rows // 1000:,} rows {into}, 90 % updates": lambda turn: _spread(1000, turn),
        f"B8 MERGE of {rows // 10:,} rows {into}, 90 % updates": lambda turn: _spread(10, turn),
        f"B8 MERGE of {rows // 100:,} rows {into}, 40 % of one key, 10 % of none": _render_skewed_merge,
    }


def _spread(step: int, turn: int) -> list[str]:
    """One row in `step` of the target, and a tenth of them new."""
    rows = large_changes.ROWS
    return _merge(f"id * {step} + {turn} + IF(id % 10 = 0, {rows}, 0)", rows // step)


def _render_skewed_merge(turn: int) -> list[str]:
    """Many new rows have one key, which one row of the next turn has too; keys that are null never match."""
    key = (
        f"CASE WHEN id % 10 < 4 THEN -{turn + 1} WHEN id % 10 = 4 THEN CAST(NULL AS BIGINT)"
        f" WHEN id = 5 THEN -{turn} ELSE id * 100 + {turn} END"
    )
    return _merge(key, large_changes.ROWS // 100)


def _merge(key: str, rows: int) -> list[str]:
    source = f"SELECT {key} AS id, 'new' AS name, 7.5D AS v FROM range({rows})"
    return [f"CREATE OR REPLACE TEMP VIEW changes AS {source}", MERGE]


if __name__ == "__main__":
    show(measure())
