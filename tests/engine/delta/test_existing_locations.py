"""Statements that create a table at an existing location: its rows stay, or the statement fails.

The expectations are the results of delta-spark 4.4 for the same statements.
"""

import pytest

from engine.delta.tables import DeltaTable
from tests.engine.delta.conftest import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = "DELTA_CREATE_TABLE_SCHEME_MISMATCH"
PARTITIONS = "DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING"
CLUSTERS = "DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING"
PROPERTIES = "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY"
OCCUPIED = "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
NO_SCHEMA = "DELTA_SCHEMA_NOT_PROVIDED"
KEPT, NEW = [(1, "a")], [(2, "b")]

# the text after the name: the resulting error code ("" for success)
DEFINITIONS = {
    "(id INT, p STRING) USING delta": "",
    "(p STRING, id INT) USING delta": "",
    "(id INT, p STRING) USING delta COMMENT 'of the table'": "",
    "(id INT) USING delta": SCHEMA,
    "(ID INT, p STRING) USING delta": SCHEMA,
    "(id BIGINT, p STRING) USING delta": SCHEMA,
    "(id INT NOT NULL, p STRING) USING delta": SCHEMA,
    "(id INT COMMENT 'c', p STRING) USING delta": SCHEMA,
    "(id INT, p STRING) USING delta PARTITIONED BY (p)": PARTITIONS,
    "(id INT, p STRING) USING delta CLUSTER BY (id)": CLUSTERS,
    "(id INT, p STRING) USING delta TBLPROPERTIES ('x' = '1')": PROPERTIES,
}


@pytest.fixture
def place(lake, tmp_path):
    """Return the location of a table of one row that has no name."""
    location = str(tmp_path / "there")
    lake.createDataFrame(KEPT, "id int, p string").write.format("delta").save(location)
    return location


def _code(act):
    try:
        act()
    except Exception as error:  # noqa: BLE001 - its code is what is compared
        return error.getCondition()
    return ""


def _rows(lake, place):
    return rows_of(lake.read.format("delta").load(place))


def _version(lake, place):
    return DeltaTable.forPath(lake, place).history(1).first().version


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE", "CREATE OR REPLACE TABLE", "CREATE TABLE IF NOT EXISTS"]
)
def test_a_new_name_at_a_location_keeps_its_rows(lake, place, statement):
    for number, (definition, code) in enumerate(DEFINITIONS.items()):
        name = f"named{number}"
        lake.sql(f"DROP TABLE IF EXISTS {name}")
        said = _code(lambda: lake.sql(f"{statement} {name} {definition} LOCATION '{place}'"))  # noqa: B023
        assert (definition, said) == (definition, code)
        assert _rows(lake, place) == KEPT
        if not code:
            assert rows_of(lake.table(name)) == KEPT
        lake.sql(f"DROP TABLE IF EXISTS {name}")
    assert _version(lake, place) == 0


def test_create_or_replace_by_path_keeps_the_rows_of_an_existing_table(lake, place):
    for definition, code in DEFINITIONS.items():
        statement = f"CREATE OR REPLACE TABLE delta.`{place}` {definition}"
        assert (definition, _code(lambda: lake.sql(statement))) == (definition, code)  # noqa: B023
        assert _rows(lake, place) == KEPT
    assert _code(lambda: lake.sql(f"REPLACE TABLE delta.`{place}` USING delta")) == NO_SCHEMA
    assert _rows(lake, place) == KEPT


def test_a_builder_keeps_the_rows_of_an_existing_table(lake, place):
    def build(*columns, name=""):
        builder = DeltaTable.createOrReplace(lake).location(place)
        builder = builder.tableName(name) if name else builder
        for column, kind in columns:
            builder = builder.addColumn(column, kind)
        builder.execute()

    for name in ("", "built"):
        assert _code(lambda: build(("id", "INT"), name=name)) == SCHEMA  # noqa: B023
        build(("id", "INT"), ("p", "STRING"), name=name)
        assert _rows(lake, place) == KEPT
    lake.sql("DROP TABLE built")


def test_rows_are_written_to_a_location_only_where_the_statement_replaces(lake, place):
    frame = lake.createDataFrame(NEW, "id int, p string")
    frame.createOrReplaceTempView("new_rows")
    select = f"USING delta LOCATION '{place}' AS TABLE new_rows"
    refused = {
        "CTAS": lambda: lake.sql(f"CREATE TABLE other {select}"),
        "CTAS IF NOT EXISTS": lambda: lake.sql(f"CREATE TABLE IF NOT EXISTS other {select}"),
        "columns missing": lambda: lake.sql(
            f"CREATE OR REPLACE TABLE other USING delta LOCATION '{place}'"
        ),
        **{
            mode: lambda mode=mode: (
                frame.write.format("delta").mode(mode).option("path", place).saveAsTable("other")
            )
            for mode in ("error", "append", "ignore")
        },
        "writeTo": lambda: (
            frame.writeTo("other").using("delta").tableProperty("location", place).create()
        ),
    }
    codes = {what: _code(act) for what, act in refused.items()}
    assert codes == dict.fromkeys(refused, OCCUPIED) | {"columns missing": NO_SCHEMA}
    assert _rows(lake, place) == KEPT
    assert not lake.catalog.tableExists("other")
    lake.sql(f"CREATE OR REPLACE TABLE other {select}")
    assert rows_of(lake.table("other")) == NEW
    lake.sql("DROP TABLE other")
    frame.write.format("delta").mode("overwrite").option("path", place).saveAsTable("other")
    assert rows_of(lake.table("other")) == NEW
    lake.sql("DROP TABLE other")


def test_only_a_replacement_writes_rows_among_files_of_other_formats(lake, tmp_path):
    frame = lake.createDataFrame(NEW, "id int, p string")
    frame.createOrReplaceTempView("new_rows")
    lake.createDataFrame(NEW, "id int, p string").write.format("delta").saveAsTable("original")

    def write_table(mode):
        return lambda place: (
            frame.write.format("delta").mode(mode).option("path", place).saveAsTable("among")
        )

    def run(text):
        return lambda place: lake.sql(text.format(place))

    for number, (write, code) in enumerate(
        (
            (lambda place: frame.write.format("delta").save(place), ""),
            (lambda place: frame.write.format("delta").mode("overwrite").save(place), ""),
            (write_table("overwrite"), ""),
            *((write_table(mode), OCCUPIED) for mode in ("error", "append", "ignore")),
            (run("CREATE OR REPLACE TABLE among USING delta LOCATION '{}' AS TABLE new_rows"), ""),
            (run("CREATE TABLE among USING delta LOCATION '{}' AS TABLE new_rows"), OCCUPIED),
            (run("CREATE OR REPLACE TABLE among (id INT) USING delta LOCATION '{}'"), OCCUPIED),
            (run("CREATE OR REPLACE TABLE among SHALLOW CLONE original LOCATION '{}'"), OCCUPIED),
        )
    ):  # fmt: skip
        place = tmp_path / str(number)
        place.mkdir()
        (place / "notes.txt").write_text("notes")
        assert (number, _code(lambda: write(str(place)))) == (number, code)  # noqa: B023
        assert (place / "notes.txt").read_text() == "notes"
        assert (place / "_delta_log").exists() == (not code)
        if not code:
            assert _rows(lake, str(place)) == NEW
        lake.sql("DROP TABLE IF EXISTS among")


def test_a_clone_under_a_new_name_does_not_replace_the_table_at_its_location(lake, place):
    lake.createDataFrame(NEW, "id int, p string").write.format("delta").saveAsTable("cloned")
    for create in ("CREATE TABLE", "CREATE OR REPLACE TABLE", "CREATE TABLE IF NOT EXISTS"):
        statement = f"{create} fresh SHALLOW CLONE cloned LOCATION '{place}'"
        assert _code(lambda: lake.sql(statement)) == OCCUPIED  # noqa: B023
        assert _rows(lake, place) == KEPT
    assert not lake.catalog.tableExists("fresh")


def test_a_table_is_replaced_where_it_is(lake, place, tmp_path):
    frame = lake.createDataFrame(NEW, "id int, p string")
    lake.sql(f"CREATE TABLE placed USING delta LOCATION '{place}'")
    elsewhere = str(tmp_path / "elsewhere")

    def save(where):
        frame.write.format("delta").mode("overwrite").option("path", where).saveAsTable("placed")

    def create(where):
        columns = "(id INT, p STRING) USING delta"
        lake.sql(f"CREATE OR REPLACE TABLE placed {columns} LOCATION '{where}'")

    for replace in (save, create):
        assert _code(lambda: replace(elsewhere)) == "DELTA_TABLE_LOCATION_MISMATCH"  # noqa: B023
    assert rows_of(lake.table("placed")) == KEPT
    save(place)
    assert _rows(lake, place) == NEW
    create(f"file:{place}/")
    assert _rows(lake, place) == []


def test_overwrite_schema_without_partitions_ends_the_partitioning(lake, tmp_path):
    place = str(tmp_path / "parted")
    frame = lake.createDataFrame(KEPT, "id int, p string")
    frame.write.format("delta").partitionBy("p").save(place)
    writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.save(place)
    assert DeltaTable.forPath(lake, place).detail().first().partitionColumns == []


def test_a_stream_with_other_partitions_than_its_table_is_refused(lake, tmp_path, place):
    target = str(tmp_path / "target")
    frame = lake.createDataFrame(KEPT, "id int, p string")
    frame.write.format("delta").partitionBy("p").save(target)

    def start(column, target):
        stream = lake.readStream.format("delta").load(place).writeStream.format("delta")
        stream = stream.option("checkpointLocation", str(tmp_path / "state")).partitionBy(column)
        stream.trigger(availableNow=True).start(target).awaitTermination(60)

    assert _code(lambda: start("id", target)) == "DELTA_METADATA_MISMATCH"
    assert _code(lambda: start("p", place)) == "DELTA_METADATA_MISMATCH"
    assert _rows(lake, target) == KEPT
    start("p", target)
    assert _rows(lake, target) == KEPT * 2
