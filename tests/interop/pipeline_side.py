"""One engine, run through all programs of `pipeline_programs`: the outcome of each step as JSON.

Run by `test_pipelines` for each engine, in the environment of that engine.
"""

import importlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.interop import delta_side
from tests.interop.pipeline_programs import PROGRAMS, Lake, read_statements
from tests.interop.rows import canonical, canonical_rows

_CODE = re.compile(r"\[([A-Z][A-Z_]*_[A-Z_]+)")
_CHANGING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}"), "<id>"),
    (re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?"), "<time>"),
    (re.compile(r"#\d+L?"), "#"),
)
_UNSTEADY = re.compile(r"size|metrics|engineInfo|userName|information|\bplan\b", re.IGNORECASE)
"""What differs between two runs of one engine: in values, and whole columns."""


def build_session(side: str, jars: str, scratch: str) -> tuple[SparkSession, Any]:
    """Return a session of an engine, and its module `tables`."""
    if side == "delta-spark":
        return delta_side.build_session(Path(jars), Path(scratch)), importlib.import_module(
            "delta.tables"
        )
    builder = SparkSession.builder.master("local[2]").appName("interop")
    for key, value in delta_side.SETTINGS.items():
        if key not in delta_side.EXTENSIONS:
            builder = builder.config(key, value)
    session = builder.config("spark.sql.warehouse.dir", f"{scratch}/warehouse").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    importlib.import_module("engine.delta").enable(session)
    return session, importlib.import_module("engine.delta.tables")


def run_programs(
    spark: SparkSession, api: Any, scratch: str, only: str
) -> Iterator[tuple[str, list[list[Any]]]]:
    """Run every program whose title contains `only`, each in its own database and directory."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    statements = read_statements()
    for number, title in enumerate([*statements, *PROGRAMS]):
        if not re.search(only, title):
            continue
        database, place = f"p{number}", f"{scratch}/p{number}"
        steps = list[list[Any]]()

        def attempt(
            label: str, call: Callable[[], object], steps: Any = steps, own: Any = (database, place)
        ) -> None:
            steps.append([label, *_observe(call, own)])

        Path(place).mkdir(parents=True)
        spark.sql(f"CREATE DATABASE {database}")
        spark.sql(f"USE {database}")
        lake = Lake(spark, api, database, place, attempt)
        for statement in statements.get(title, ()):
            text = statement.replace("{d}", database).replace("{p}", place)
            lake.attempt(lambda text=text: spark.sql(text), label=statement)
        if title in PROGRAMS:
            PROGRAMS[title](lake)
        yield title, steps


def _observe(call: Callable[[], object], own: tuple[str, str]) -> tuple[Any, ...]:
    """Return the rows or the value of a step; or its error's class and text."""
    try:
        value = call()
        if isinstance(value, DataFrame):
            steady = [at for at, name in enumerate(value.columns) if not _UNSTEADY.search(name)]
            rows = [[row[at] for at in steady] for row in value.collect()]
            value = [[value.columns[at] for at in steady], *canonical_rows(rows)]
        elif not isinstance(value, list | tuple | str | int):
            value = None  # objects of each engine
        return "ok", json.loads(_scrub(json.dumps(canonical(value)), own))
    except Exception as error:  # noqa: BLE001 - the step's outcome
        return "error", _name_class(error), _scrub(str(error)[:600], own)


def _name_class(error: Exception) -> str:
    """Return an error's class without its subclass, else its Python class; "" if it has none.

    Of a stream's failure the cause counts. Numbers of Spark's old errors and failures of its own
    are no classes.
    """
    told = str(getattr(error, "getCondition", lambda: None)() or "")
    codes = _CODE.findall(str(error)) if told == "STREAM_FAILED" else []
    told = codes[-1] if codes else told.partition(".")[0]
    unclassed = not told and isinstance(error, PySparkException | Py4JError)
    if unclassed or told.startswith(("_LEGACY", "INTERNAL_ERROR")):
        return ""
    return told or type(error).__name__


def _scrub(text: str, own: tuple[str, str]) -> str:
    database, place = own
    text = text.replace(place, "<place>").replace(database, "<database>")
    text = text.replace(str(Path(place).parent), "<scratch>")
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    return text


def main(side: str, jars: str, output: str, only: str = "") -> None:
    with tempfile.TemporaryDirectory() as scratch:
        spark, api = build_session(side, jars, scratch)
        outcomes = {}
        for title, steps in run_programs(spark, api, scratch, only):
            outcomes[title] = steps
            Path(output).write_text(json.dumps(outcomes, indent=1), "utf-8")
    os._exit(0)  # streams of failed programs may still run


if __name__ == "__main__":
    main(*sys.argv[1:])
