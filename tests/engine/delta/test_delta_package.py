"""The package `delta` for programs that import it: its names, and programs that run on it."""

import os
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from engine.delta.delta_package import DIRECTORY
from engine.spark.session import PySparkChangedError, check_hooks
from tests.services import ROOT
from tests.shares import one_in

# the public names of delta.tables in delta-spark 4.4, which declares no __all__; without `delta`
STAR = """
Any Column ColumnMapping DataFrame DataType DeltaMergeBuilder DeltaOptimizeBuilder DeltaTable
DeltaTableBuilder Dict ExpressionOrColumn IdentityGenerator Iterable List NoReturn Optional
OptionalColumnMapping OptionalExpressionOrColumn SparkSession StructField StructType TYPE_CHECKING
Tuple Union cast dataclass functions is_remote overload since
"""
NAMES = f"""
from delta.tables import *
missing = [name for name in {STAR.split()!r} if name not in globals()]
assert not missing, missing

import delta, delta.exceptions.base, delta.pip_utils, delta.tables, delta.connect.tables
import engine.delta.exceptions, engine.delta.tables
from delta import DeltaTable, configure_spark_with_delta_pip, __version__
from delta.exceptions import ConcurrentAppendException
assert engine.delta.tables.DeltaTable is DeltaTable is delta.tables.DeltaTable
assert delta.connect.tables.DeltaTable is DeltaTable
assert engine.delta.exceptions.ConcurrentAppendException is ConcurrentAppendException
assert delta.exceptions.base.ConcurrentAppendException is ConcurrentAppendException
assert delta.pip_utils.configure_spark_with_delta_pip is configure_spark_with_delta_pip
assert delta.version.__version__ == __version__
print("done")
"""
PROGRAM = """
import sys
from pyspark.sql import SparkSession
from delta import DeltaTable, configure_spark_with_delta_pip

builder = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
place = sys.argv[1]
spark.createDataFrame([(1, "a"), (2, "b")], "id INT, name STRING").write.format("delta").save(place)
source = spark.createDataFrame([(2, "B"), (3, "C")], "id INT, name STRING")
merge = DeltaTable.forPath(spark, place).alias("t").merge(source.alias("s"), "t.id = s.id")
merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
spark.sql(f"DELETE FROM delta.`{place}` WHERE id = 1")
print(sorted(tuple(row) for row in spark.read.format("delta").load(place).collect()))
"""


def _run(*arguments, path=(), **environment):
    return subprocess.run(  # noqa: S603 - this interpreter, programs of ours
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT))), **environment},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def test_delta_has_the_names_of_delta_spark_by_call_by_runner_and_by_pythonpath(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(NAMES)
    called = _run("-c", f"import engine.delta; engine.delta.provide_delta()\n{NAMES}")
    assert (called.stdout, called.stderr) == ("done\n", "")
    ran = _run("-m", "engine.delta", str(program))
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    printed = _run("-m", "engine.delta", "--path").stdout.strip()
    assert printed == str(DIRECTORY)
    found = _run("-c", NAMES, path=(printed,))
    assert (found.stdout, found.stderr) == ("done\n", "")


def test_another_delta_that_is_imported_already_is_named(tmp_path):
    (tmp_path / "delta.py").write_text("tables = None\n")
    ended = _run("-c", "import delta, engine.delta; engine.delta.provide_delta()", path=(tmp_path,))
    assert f"The package `delta` is imported already, from {tmp_path / 'delta.py'}." in ended.stderr
    twice = "import engine.delta\nengine.delta.provide_delta()\nengine.delta.provide_delta()"
    assert _run("-c", twice, path=(tmp_path,)).stderr == ""


def test_the_runner_passes_arguments_on_and_explains_itself(tmp_path):
    (tmp_path / "beside.py").write_text("value = 7\n")
    program = tmp_path / "program.py"
    program.write_text("import sys, beside; print(__name__, sys.argv, beside.value)\n")
    ran = _run("-m", "engine.delta", str(program), "a", "-m")
    assert ran.stdout == f"__main__ {[str(program), 'a', '-m']} 7\n"
    module = _run("-m", "engine.delta", "-m", "beside", path=(tmp_path,))
    assert (module.returncode, module.stderr) == (0, "")
    for arguments in ([], ["-m"], ["--unknown"]):
        assert _run("-m", "engine.delta", *arguments).stderr.startswith("usage: ")


CATALOG = "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
WAYS = {  # in the first way, the JVM starts with a catalog class that it does not have
    "by PYTHONPATH": ((), (DIRECTORY,), f"--conf {CATALOG} pyspark-shell"),
    "by the runner": (("-m", "engine.delta"), (), "pyspark-shell"),
}


@pytest.mark.spark
@pytest.mark.timeout(180)
@pytest.mark.parametrize("way", one_in(2, WAYS))
def test_a_program_of_delta_spark_runs_unchanged_even_if_others_set_its_catalog(tmp_path, way):
    program, (runner, path, submitted) = tmp_path / "program.py", WAYS[way]
    program.write_text(PROGRAM)
    command = (*runner, str(program), str(tmp_path / "table"))
    ran = _run(*command, path=path, PYSPARK_SUBMIT_ARGS=submitted)
    assert ran.stdout == "[(2, 'B'), (3, 'C')]\n", ran.stderr


def test_an_attribute_of_pyspark_that_moved_is_named_in_one_line():
    class Session:
        def sql(self, query, args=None): ...

        @property
        def read(self): ...

    check_hooks(Session, sql="query args", read=None)
    for moved, named in (
        ({"sql": "query args limit"}, r"Session\.sql\(query, args, limit\)"),
        ({"read": ""}, r"Session\.read\(\)"),
        ({"sql": None}, r"has no Session\.sql,"),
        ({"table": "name"}, r"Session\.table\(name\)"),
    ):
        with pytest.raises(PySparkChangedError, match=named) as raised:
            check_hooks(Session, **moved)
        assert "\n" not in str(raised.value)
    check_hooks(SparkSession.Builder, getOrCreate="", create="")
