"""The programs of docs/library.md run without Spark and do as the page says."""

import re
from dataclasses import fields
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import OnlyReadsError, StatementError
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.operations.run_options import NeedsSparkError, RunOptions
from engine.table import DeltaTable

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "library.md").read_text("utf-8")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Run the page's programs in order on a separate lake, and return their names."""
    lake = tmp_path_factory.mktemp("lake")
    names = {"__name__": "guide"}
    for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(compile(block.replace("/data/lake", str(lake)), "docs/library.md", "exec"), names)  # noqa: S102 - the guide's own programs
    return names


def test_the_guide_reads_rows_and_an_earlier_version(program):
    assert sorted(program["rows"].column("state").to_pylist()) == ["paid", "sent"]
    assert program["first"].num_rows == 3


def test_the_guide_keeps_rows_of_a_program_by_upserts(program):
    rows = program["countries"].snapshot().to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [
        ("CI", "Côte d'Ivoire", date(1960, 8, 7)),
        ("DE", "Germany", None),
        ("TD", None, None),
    ]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("STRING", None),
        ("STRING", "it's \\ a 'text';\n--"),
        ("STRING", "\\'"),
        ("BOOLEAN", True),
        ("BIGINT", -(2**63)),
        ("DECIMAL(9, 2)", Decimal("-1E+2")),
        ("DOUBLE", 1e-05),
        ("DOUBLE", float("-inf")),
        ("DATE", date(2024, 2, 29)),
        ("TIMESTAMP", datetime(2024, 1, 1, 10, 0, 0, 123456, tzinfo=UTC)),
        ("BINARY", b"\x00'\xff"),
    ],
)
def test_a_value_of_the_program_keeps_its_type(kind, value, do_lightly, empty_table):
    do_lightly(f"CREATE TABLE t (a {kind})")
    do_lightly("INSERT INTO t TABLE s", sources={"s": [{"a": value}]})
    assert empty_table.snapshot().to_arrow().column("a").to_pylist() == [value]


def test_the_guide_plans_a_vacuum_without_a_commit(program):
    operations = [commit.operation for commit in program["table"].history()]
    assert "nothing would be deleted" in program["plan"].summary
    assert not [operation for operation in operations if operation.startswith("VACUUM")]


def test_the_guide_provokes_a_conflict_and_a_retry_resolves_it(program):
    result, table = program["result"], DeltaTable.open(program["table"].uri)
    operations = [commit.operation for commit in table.history()]
    # the aborted one is missing
    assert operations[:4] == ["UPDATE", "UPDATE", "UPDATE", "MERGE"]
    assert result.version == table.version()
    paid = table.snapshot().to_arrow(condition="id = 1")
    assert paid.column("state").to_pylist() == ["paid"]


def test_the_guide_reads_the_table_by_other_engines(program):
    rows = DeltaTable.open(program["table"].uri).snapshot().to_arrow().to_pylist()
    expected = sorted(tuple(row.values()) for row in rows)
    by_deltalake = pa.table(program["read_by_deltalake"]).to_pylist()
    assert expected
    assert sorted(tuple(row.values()) for row in by_deltalake) == expected
    assert sorted(program["read_by_duckdb"]) == expected


@pytest.mark.parametrize("kind", [RunOptions, OperationResult])
def test_the_guide_has_every_option_and_every_field_of_a_result(kind):
    tables = GUIDE.partition("## Options and results")[2].partition("\n## ")[0]
    assert [part.name for part in fields(kind) if f"`{part.name}`" not in tables] == []


def test_a_statement_that_reads_says_how_python_reads(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT)")
    with pytest.raises(OnlyReadsError, match=r"In Python, use snapshot\(\)\.to_arrow\(\)"):
        run("SELECT id FROM t", empty_table)
    with pytest.raises(StatementError, match="The statement is empty"):
        run(" ", empty_table)
    assert empty_table.version() == 0


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "INSERT INTO t BY NAME SELECT * FROM read_files('/new.csv', format => 'csv')",
            "needs Spark to read the source.* as VALUES",
        ),
        (
            "MERGE INTO t USING (SELECT id FROM t) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
            "read the source",
        ),
        ("OPTIMIZE t", "needs Spark to compact files, and there is no Spark session. Pass"),
    ],
)
def test_without_a_session_the_error_names_the_part_that_needs_it(
    do_lightly, empty_table, statement, message
):
    do_lightly("CREATE TABLE t (id BIGINT)")
    do_lightly("INSERT INTO t VALUES (1)")
    do_lightly("INSERT INTO t VALUES (2)")
    with pytest.raises(NeedsSparkError, match=message):
        run(statement, empty_table)
    assert empty_table.version() == 2
