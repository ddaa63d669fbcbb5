"""`manage.py discover --catalog` with Spark's own Hive metastore, over Derby."""

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from lakeui.catalog.models import Table
from lakeui.task_names import CATALOG_TABLES
from tests.services import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.stress, pytest.mark.timeout(300)]

HIVE_SITE = """<configuration><property>
<name>javax.jdo.option.ConnectionURL</name>
<value>jdbc:derby:;databaseName={place};create=true</value>
</property></configuration>"""
PROGRAM = """
import sys
from engine.delta import enable
from engine.spark.session import build_session

spark = enable(build_session(
    "fill", master="local[1]", settings={"spark.sql.catalogImplementation": "hive"}
))
lake = sys.argv[1]
spark.sql(f"CREATE DATABASE sales LOCATION '{lake}/sales'")
spark.sql(f"CREATE TABLE sales.orders (id BIGINT) USING delta LOCATION '{lake}/made elsewhere/o %41'")
spark.sql("INSERT INTO sales.orders VALUES (1)")
spark.sql("CREATE TABLE sales.returns (id BIGINT) USING delta")
spark.sql(f"CREATE TABLE sales.plain (id BIGINT) USING parquet LOCATION '{lake}/plain'")
spark.sql(f"CREATE TABLE default.outside (id BIGINT) USING delta LOCATION '{lake}-outside/t'")
spark.sql("CREATE VIEW sales.seen AS SELECT 1 AS one")
spark.stop()
"""


@pytest.fixture
def metastore(tmp_path, monkeypatch, settings) -> Path:
    """Create a metastore with tables of several kinds in the configured place; return the tables' root."""
    lake, configuration = tmp_path / "lake", tmp_path / "conf"
    configuration.mkdir()
    place = HIVE_SITE.format(place=tmp_path / "metastore")
    (configuration / "hive-site.xml").write_text(place)
    monkeypatch.setenv("SPARK_CONF_DIR", str(configuration))
    settings.TABLE_ROOTS = [str(lake)]
    done = subprocess.run(  # noqa: S603 - this interpreter, lines of ours
        [sys.executable, "-c", PROGRAM, str(lake)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return lake


def discover(*arguments: str) -> list[dict[str, str]]:
    out = StringIO()
    call_command("discover", *arguments, "-o", "json", stdout=out)
    tables: list[dict[str, str]] = json.loads(out.getvalue())["tables"]
    return tables


@pytest.mark.django_db
def test_the_delta_tables_of_a_hive_metastore_are_registered_by_their_names(metastore):
    rows = {row["name"]: row for row in discover("--catalog", "*", "--register")}
    assert rows.keys() == {"default.outside", "sales.orders", "sales.returns"}
    assert "TABLE_ROOTS" in rows["default.outside"]["state"]
    assert rows["sales.orders"]["state"] == "registered", rows
    registered = {table.name: table for table in Table.objects.all()}
    assert registered.keys() == {"sales.orders", "sales.returns"}
    assert registered["sales.orders"].uri == str(metastore / "made elsewhere/o %41")
    assert registered["sales.orders"].version == 1
    again = {row["name"]: row["state"] for row in discover("--catalog", "sales.r*")}
    assert again == {"sales.returns": "registered"}


@pytest.mark.django_db
def test_an_unreachable_metastore_and_a_root_beside_are_refused(tmp_path, monkeypatch, capfd):
    with pytest.raises(CommandError, match="not both"):
        call_command("discover", "/lake", "--catalog", "*")
    (tmp_path / "hive-site.xml").write_text(HIVE_SITE.format(place="/proc/nowhere/metastore"))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with pytest.raises(CommandError, match=r"hive-site\.xml"):
        call_command("discover", "--catalog", "*")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.django_db
def test_a_catalog_without_java_is_refused_in_one_line(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CommandError, match="no Java was found"):
        call_command("discover", "--catalog", "*")
    assert "Traceback" not in capfd.readouterr().err


def test_the_program_is_where_its_name_says():
    assert (ROOT / f"{CATALOG_TABLES.replace('.', '/')}.py").is_file()
