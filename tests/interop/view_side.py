"""Permanent views in a metastore that delta-spark and this engine share, on one of the two sides.

`python -m tests.interop.view_side SIDE PLACE [JARS]` creates a table and views in a database called
like the side (`theirs` for delta-spark, with its jars, else `ours`), if it is not there, and prints
the rows of every view in both databases as JSON.
"""

import json
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
VIEWS = {
    "loose": ("false", "Asia/Tokyo", "SELECT id, CAST(t AS INT) AS n, hour(at) AS h FROM orders"),
    "outer_view": ("true", "UTC", "WITH v AS (SELECT * FROM loose) SELECT h FROM v"),
    "strict": ("true", "UTC", "SELECT CAST(t AS INT) AS n FROM orders"),
    "zoned": ("true", "America/New_York", "SELECT CAST(at AS STRING) AS s FROM orders WHERE id = 1"),
    "old": ("true", "UTC", "SELECT count(*) AS n FROM orders VERSION AS OF 0"),
}  # fmt: skip
"""The settings at the creation of each view, and its query."""


def build_session(place: Path, jars: Path | None) -> SparkSession:
    """Return a session with the metastore below `place`: delta-spark's if there are jars."""
    settings = {
        "spark.sql.warehouse.dir": f"{place}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:{place}/metastore;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={place}",
        "spark.ui.enabled": "false",
    }
    if jars is not None:
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = (
            "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        settings["spark.jars"] = ",".join(map(str, sorted(jars.glob("*.jar"))))
    builder = SparkSession.builder.master("local[2]").enableHiveSupport()
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    if jars is None:
        from engine.delta import enable  # noqa: PLC0415 - the other side has no engine

        enable(session)
    return session


def create_views(spark: SparkSession, database: str) -> None:
    """Create the database with its table and its views."""
    spark.sql(f"CREATE DATABASE {database}")
    spark.sql(f"USE {database}")
    spark.sql("CREATE TABLE orders (id INT, at TIMESTAMP, t STRING) USING delta")
    spark.sql(
        "INSERT INTO orders VALUES (1, TIMESTAMP'2026-01-01 23:30:00+00:00', 'x'), (2, NULL, '4')"
    )
    for name, (ansi, zone, query) in VIEWS.items():
        spark.conf.set(ANSI, ansi)
        spark.conf.set(ZONE, zone)
        spark.sql(f"CREATE VIEW {name} AS {query}")


def read_view(spark: SparkSession, view: str) -> object:
    """Return the rows of a view, or the class of its error."""
    try:
        return sorted([str(value) for value in row] for row in spark.table(view).collect())
    except PySparkException as error:
        return error.getCondition()


def main(side: str, place: Path, jars: Path | None) -> None:
    """Create what is missing, and print the content of every view."""
    spark = build_session(place, jars)
    if not spark.catalog.databaseExists(side):
        create_views(spark, side)
    answers = {}
    for ansi in ("true", "false"):
        spark.conf.set(ANSI, ansi)
        spark.conf.set(ZONE, "UTC")
        for database in ("theirs", "ours"):
            if spark.catalog.databaseExists(database):
                for name in VIEWS:
                    answers[f"{database}.{name}, {ansi}"] = read_view(spark, f"{database}.{name}")
    sys.stdout.write(json.dumps(answers) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3:] else None)
