"""dbt's side: dbt-spark's own tests and more of dbt-tests-adapter, in an environment with dbt.

    python tests/interop/dbt_side.py /path/to/dbt-spark's/source [argument of pytest …]

The source distribution of dbt-spark has its tests. They run unchanged, in one enabled session; marks
that skip a test in a session without Delta are dropped. The cases of `dbt_cases.py` are copied to
them, as their package is called `tests` too.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.delta import enable

_TESTS = "tests/functional/adapter"
_OPTIONS = (
    *("-q", "-o", "addopts=", "-p", "no:cacheprovider", "-W", "ignore"),
    *("--profile", "spark_session"),
)


class DeltaSession:
    """A pytest plugin for a session that has Delta tables."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Drop the marks of tests that dbt-spark skips in sessions."""
        for item in items:
            for node in item.listchain():
                node.own_markers[:] = [m for m in node.own_markers if m.name != "skip_profile"]


def build_session(scratch: Path) -> SparkSession:
    """Return an enabled session with an empty metastore below `scratch`."""
    settings = {
        "spark.sql.sources.default": "delta",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:dbt;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch}",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("dbt").enableHiveSupport()
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return enable(session)


def main(source: Path, *arguments: str) -> int:
    """Run the tests and return pytest's exit code."""
    cases = Path(__file__).with_name("dbt_cases.py").resolve()
    os.environ.setdefault("DBT_DATABRICKS_HOST_NAME", "unused")  # their fixtures read it
    os.chdir(source)
    shutil.copy(cases, Path(_TESTS, "test_on_delta.py"))
    with tempfile.TemporaryDirectory() as scratch:
        session = build_session(Path(scratch))
        code = pytest.main([*_OPTIONS, _TESTS, *arguments], plugins=[DeltaSession()])
        session.stop()
    return int(code)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
