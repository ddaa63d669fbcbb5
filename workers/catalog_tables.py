"""Prints the Delta tables of Spark's session catalog as JSON.

    python -m workers.catalog_tables 'sales.*'

A separate program, run by `manage.py discover --catalog`: it starts a Spark with Hive's support,
configured by `SPARK_CONF_DIR` (`hive-site.xml`, `spark-defaults.conf`). On failure it prints the
reason as one line of JSON, a string, and exits with 1.
"""

import json
import sys
from fnmatch import fnmatchcase

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import PySparkException

from engine.delta.names import PROVIDERS
from engine.errors import EngineError
from engine.spark.session import build_session
from engine.spark.session_catalog import iter_tables

_HIVE = {"spark.sql.catalogImplementation": "hive"}


def main(pattern: str) -> list[dict[str, str]]:
    """Return name and location of each Delta table whose name matches the pattern."""
    session = build_session("discover", master="local[1]", settings=_HIVE)
    try:
        return [
            {"name": table.name, "place": table.location}
            for table in iter_tables(session)
            if table.provider.lower() in PROVIDERS and fnmatchcase(table.name, pattern)
        ]
    finally:
        session.stop()


if __name__ == "__main__":
    try:
        answer: object = main(sys.argv[1])
    except (EngineError, PySparkException, Py4JError) as error:
        answer = str(error).strip().partition("\n")[0][:500]
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.exit(isinstance(answer, str))
