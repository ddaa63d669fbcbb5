"""Refused arguments: the same ones, with the same messages, as in delta-spark."""

import pytest

from engine.delta.tables import DeltaTable, IdentityGenerator

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]
NOT_AN_EXPRESSION = "must be a Spark SQL Column or a string"


@pytest.fixture
def table(make):
    return make([])


@pytest.fixture
def merge_builder(spark, table):
    return table.merge(spark.range(1), "value = id")


@pytest.fixture
def builder(spark, tmp_path):
    return DeltaTable.create(spark).location(str(tmp_path / "new"))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (({"value": "200"},), ValueError, "'set' cannot be None"),
        (("key = 'a'",), ValueError, "'set' cannot be None"),
        (("key = 'a'", 1), TypeError, "'set' must be a dict"),
        ((1, {}), TypeError, NOT_AN_EXPRESSION),
        ((None, {"value": 1}), TypeError, "Values of dict in 'set' must contain only"),
        ((None, {1: ""}), TypeError, "Keys of dict in 'set' must contain only"),
    ],
)
def test_update_refuses_the_same_arguments_as_delta_spark(table, arguments, error, words):
    with pytest.raises(error, match=words):
        table.update(*arguments)


@pytest.mark.parametrize(
    ("clause", "name"),
    [
        ("whenMatchedUpdate", "'set' in whenMatchedUpdate"),
        ("whenNotMatchedInsert", "'values' in whenNotMatchedInsert"),
        ("whenNotMatchedBySourceUpdate", "'set' in whenNotMatchedBySourceUpdate"),
    ],
)
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (({"value": "v"},), ValueError, "{} cannot be None"),
        ((1,), ValueError, "{} cannot be None"),
        ((1, {"value": "v"}), TypeError, NOT_AN_EXPRESSION),
        (("k = 'a'", 1), TypeError, "{} must be a dict"),
        ((None, {"value": 1}), TypeError, "Values of dict in {} must contain only"),
        ((None, {1: ""}), TypeError, "Keys of dict in {} must contain only"),
    ],
)
def test_clauses_of_merge_refuse_the_same_arguments_as_delta_spark(
    merge_builder, clause, name, arguments, error, words
):
    with pytest.raises(error, match=words.format(name)):
        getattr(merge_builder, clause)(*arguments)


def test_merge_takes_a_dataframe_and_a_condition_alone(spark, table):
    with pytest.raises(TypeError, match="must be DataFrame"):
        table.merge(1, "key = k")
    with pytest.raises(TypeError, match=NOT_AN_EXPRESSION):
        table.merge(spark.range(1), 1)
    with pytest.raises(ValueError, match="'source' in merge cannot be None"):
        table.merge(None, "key = k")
    with pytest.raises(ValueError, match="'condition' in merge cannot be None"):
        table.merge(spark.range(1), None)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("tableName", (1,)),
        ("location", (1,)),
        ("comment", (1,)),
        ("addColumn", (1, "int")),
        ("addColumn", ("a", 1)),
        ("addColumn", ("a", "int", 1)),
        ("addColumn", ("a", "int", True, 1)),
        ("addColumn", ("a", "int", True, None, "1")),
        ("addColumn", ("a", "int", True, None, None, 1)),
        ("addColumns", (1,)),
        ("addColumns", ([1],)),
        ("partitionedBy", (1,)),
        ("partitionedBy", (1, "1")),
        ("partitionedBy", ([1],)),
        ("clusterBy", ([1],)),
        ("property", (1, "1")),
        ("property", ("1", 1)),
    ],
)
def test_the_builder_of_a_table_refuses_other_types(builder, call, arguments):
    with pytest.raises(TypeError, match="Found "):
        getattr(builder, call)(*arguments)


def test_numbers_of_an_identity_column_must_change_and_be_its_only_default(builder):
    with pytest.raises(ValueError, match="step to be non-zero"):
        builder.addColumn("i", "bigint", generatedAlwaysAs=IdentityGenerator(1, 0))
    with pytest.raises(ValueError, match="cannot both be set"):
        builder.addColumn("i", "bigint", True, "1", IdentityGenerator())


@pytest.mark.parametrize(
    ("call", "arguments", "words"),
    [
        ("restoreToVersion", ("0",), "version needs to be an int but got"),
        ("restoreToTimestamp", (12342323232,), "timestamp needs to be a string but got"),
        ("upgradeTableProtocol", ("abc", 3), "readerVersion needs to be an integer"),
        ("upgradeTableProtocol", (1, [3]), "writerVersion needs to be an integer"),
        ("addFeatureSupport", (12,), "featureName needs to be a string"),
        ("dropFeatureSupport", ("a", "yes"), "truncateHistory needs to be a boolean"),
        ("clone", (1,), "target needs to be a string"),
        ("clone", ("a", "x"), "isShallow needs to be a boolean"),
        ("clone", ("a", True, True, {"k": 1}), "All property values including 1"),
        ("cloneAtVersion", ("1", "a"), "version needs to be an int"),
    ],
)
def test_maintenance_methods_refuse_arguments_of_other_types(table, call, arguments, words):
    with pytest.raises(ValueError, match=words):
        getattr(table, call)(*arguments)
