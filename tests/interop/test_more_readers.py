"""ClickHouse and Sail read tables of each kind as this engine does; docs/interoperability.md says so."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.clients import write_section
from tests.interop.fetch import HOME
from tests.interop.plain_rows import lines_of
from tests.interop.report import MORE_READERS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1200)]

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = _ROOT / "docs" / "interoperability.md"
_CREATE = "CREATE TABLE t (id BIGINT, p STRING, day DATE, n DOUBLE) USING DELTA"
_VECTORS = "'delta.enableDeletionVectors' = 'true'"
KINDS = {
    "plain": "",
    "deletion vectors": f" TBLPROPERTIES ({_VECTORS})",
    "partitioned": " PARTITIONED BY (p)",
    "clustered": f" CLUSTER BY (id) TBLPROPERTIES ({_VECTORS})",
    "mapped columns": f" TBLPROPERTIES ('delta.columnMapping.mode' = 'name', {_VECTORS})",
    "v2 checkpoints": f" TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2', {_VECTORS})",
    "row tracking": f" TBLPROPERTIES ('delta.enableRowTracking' = 'true', {_VECTORS})",
    "in-commit timestamps": f" TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true', {_VECTORS})",
}  # fmt: skip
STATEMENTS = (
    "INSERT INTO t VALUES (1, 'a', DATE '2026-01-01', 1.5), (2, 'b', NULL, -0.25), (3, 'ä', DATE '1969-12-31', NULL)",
    "INSERT INTO t VALUES (4, NULL, DATE '2026-02-28', 4), (5, 'a b=c', NULL, 5)",
    "DELETE FROM t WHERE id = 2",
    "UPDATE t SET n = n + 1 WHERE id IN (1, 5)",
    "MERGE INTO t USING (VALUES (3, 'z'), (6, 'new')) AS s (id, p) ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET n = 9 WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, s.p)",
)


@dataclass(frozen=True)
class Reader:
    """An engine in its own environment: the packages to install, and the program that runs there."""

    name: str
    packages: tuple[str, ...]
    module: str


READERS = (
    Reader("ClickHouse", ("chdb",), "tests.interop.clickhouse_side"),
    Reader("Sail", ("pysail", "pyspark-client"), "tests.interop.sail_side"),
)


def _python(reader: Reader) -> Path:
    """Return its Python, installed on first use; skip the test with a message if that fails."""
    place = HOME / reader.packages[0]
    python, done = place / "bin" / "python", place / ".installed"
    if not done.is_file():
        commands = (
            [sys.executable, "-m", "venv", "--clear", str(place)],
            [str(python), "-m", "pip", "install", "-q", *reader.packages],
        )
        for command in commands:
            outcome = subprocess.run(  # noqa: S603 - Python and pip
                command, capture_output=True, text=True, timeout=900, check=False
            )
            if outcome.returncode:
                pytest.skip(f"{reader.name} cannot be installed ({' '.join(reader.packages)})")
        done.touch()
    return python


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, list[str]]]:
    """Create a table of each kind without Spark; return them with the rows that this engine reads."""
    made = {}
    for kind, layout in KINDS.items():
        place = str(tmp_path_factory.mktemp("readers") / kind.replace(" ", "-"))
        table = DeltaTable(open_store(place))
        for statement in (_CREATE + layout, *STATEMENTS):
            run(parse_statement(statement), table, None)
        made[kind] = (place, lines_of(table.snapshot().to_arrow().to_pylist()))
    return made


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_table_of_each_kind_is_read_as_it_is(
    reader: Reader, tables: dict[str, tuple[str, list[str]]], record: Callable[[str, str], None]
) -> None:
    python = _python(reader)
    asked = "".join(json.dumps(place) + "\n" for place, _ in tables.values())
    outcome = subprocess.run(  # noqa: S603 - an environment of this package
        [str(python), "-m", reader.module],
        input=asked,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT), "TZ": "UTC"},
        cwd="/",
        timeout=600,
        check=False,
    )
    answers = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(tables), outcome.stderr[-2000:]
    wrong = {}
    for (kind, (_, rows)), answer in zip(tables.items(), answers, strict=True):
        if answer.get("ok") != rows:
            wrong[kind] = answer, rows
    assert wrong == {}
    record(reader.name, _version(python, reader.packages[0]))


def _version(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version('{package}'))"
    told = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return f"{package} {told.stdout.strip()}"


@pytest.fixture(scope="module")
def record() -> object:
    """Record at the end of the page which readers read everything."""
    found: dict[str, str] = {}
    yield found.__setitem__
    if found:
        shown = " and ".join(f"{name} ({which})" for name, which in found.items())
        kinds = ", ".join(KINDS)
        write_section(
            f"{MORE_READERS}\n\nAfter INSERT, DELETE, UPDATE and MERGE, {shown} read exact "
            f"rows from tables of these kinds: {kinds}.\n",
            _PAGE,
        )
