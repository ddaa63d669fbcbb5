"""The work before a file's rows are read has its own steps, which are reported, counted and cancelled."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.commands.model import Append, FileSource
from engine.errors import OperationCancelledError
from engine.spark.jobs import Progress
from engine.spark.sources import PIECE_BYTES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

INFER = "infer the schema"


def steps(seen: list[Progress]) -> list[str]:
    """Return the steps in the order in which they began, each time."""
    names = [told.stage for told in seen if not told.detail]
    return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]


def write_source(tmp_path, kind: str) -> str:
    path = tmp_path / f"rows.{kind}"
    match kind:
        case "csv":
            path.write_text("id,note\n1,a\n2,b\n")
        case "json":
            path.write_text('{"id": 1, "note": "a"}\n')
        case _:
            pq.write_table(pa.table({"id": [1], "note": ["a"]}), path)
    return str(path)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_inferring_the_schema_is_a_step_between_two_turns_of_reading(do, tmp_path, kind):
    do("CREATE TABLE t (id BIGINT) USING DELTA")
    seen: list[Progress] = []
    source = FileSource(write_source(tmp_path, kind), kind)
    do(Append(source, merge_schema=True), progress=seen.append)
    names = steps(seen)
    at = names.index(INFER)
    assert names[at - 1 : at + 3] == ["read the source", INFER, "read the source", "write files"]
    inferred = [told for told in seen if told.stage == INFER][-1]
    assert inferred.done == inferred.total > 0
    assert inferred.stages.total > 0


def test_a_known_schema_is_not_inferred(do, tmp_path):
    do("CREATE TABLE t (id BIGINT, note STRING) USING DELTA")
    seen: list[Progress] = []
    do(Append(FileSource(write_source(tmp_path, "csv"), "csv")), progress=seen.append)
    assert INFER not in steps(seen)


def test_a_job_is_cancelled_while_its_schema_is_inferred(do, tmp_path, empty_table):
    do("CREATE TABLE t (id BIGINT) USING DELTA")

    def cancel(told: Progress) -> None:
        if told.stage == INFER:
            what = "Cancelled."
            raise OperationCancelledError(what)

    with pytest.raises(OperationCancelledError):
        do(Append(FileSource(write_source(tmp_path, "json"), "json")), progress=cancel)
    assert empty_table.snapshot().version == 0


def test_the_lines_of_a_large_file_are_counted_in_a_step(do, tmp_path):
    do("CREATE TABLE t (id BIGINT, note STRING) USING DELTA")
    row = "1," + "x" * 1_000_000 + "\n"
    (tmp_path / "large.csv").write_text("id,note\n" + row * (PIECE_BYTES // len(row) + 2))
    seen: list[Progress] = []
    do(Append(FileSource(str(tmp_path / "large.csv"), "csv")), progress=seen.append)
    assert steps(seen).count("count lines") == 1
    counted = [told for told in seen if told.stage == "count lines"][-1]
    assert counted.done == counted.total == 2
