"""Every name of delta-spark 4.4's `delta.tables` and `delta.exceptions`, with its arguments."""

import inspect

import pytest
from pyspark.errors import PySparkException

from engine.delta import exceptions, tables
from engine.delta.connect import tables as connect_tables
from engine.delta.session_hooks import route, route_property

SIGNATURES = {
    "DeltaTable": """
        toDF()
        alias(aliasName)
        generate(mode)
        delete(condition=None)
        update(condition=None, set=None)
        merge(source, condition)
        vacuum(retentionHours=None)
        history(limit=None)
        detail()
        classmethod convertToDelta(sparkSession, identifier, partitionSchema=None)
        classmethod forPath(sparkSession, path, hadoopConf={})
        classmethod forName(sparkSession, tableOrViewName)
        classmethod create(sparkSession=None)
        classmethod createIfNotExists(sparkSession=None)
        classmethod replace(sparkSession=None)
        classmethod createOrReplace(sparkSession=None)
        classmethod isDeltaTable(sparkSession, identifier)
        upgradeTableProtocol(readerVersion, writerVersion)
        addFeatureSupport(featureName)
        dropFeatureSupport(featureName, truncateHistory=None)
        restoreToVersion(version)
        restoreToTimestamp(timestamp)
        optimize()
        clone(target, isShallow=False, replace=False, properties=None)
        cloneAtVersion(version, target, isShallow=False, replace=False, properties=None)
        cloneAtTimestamp(timestamp, target, isShallow=False, replace=False, properties=None)
    """,
    "DeltaMergeBuilder": """
        whenMatchedUpdate(condition=None, set=None)
        whenMatchedUpdateAll(condition=None)
        whenMatchedDelete(condition=None)
        whenNotMatchedInsert(condition=None, values=None)
        whenNotMatchedInsertAll(condition=None)
        whenNotMatchedBySourceUpdate(condition=None, set=None)
        whenNotMatchedBySourceDelete(condition=None)
        withSchemaEvolution()
        execute()
    """,
    "DeltaTableBuilder": """
        tableName(identifier)
        location(location)
        comment(comment)
        addColumn(colName, dataType, nullable=True, generatedAlwaysAs=None, \
generatedByDefaultAs=None, comment=None)
        addColumns(cols)
        partitionedBy(*cols)
        clusterBy(*cols)
        property(key, value)
        execute()
    """,
    "DeltaOptimizeBuilder": """
        where(partitionFilter)
        executeCompaction()
        executeZOrderBy(*cols)
    """,
}
BEYOND = {
    "DeltaTable": {"option", "retries", "commitInfo", "observed"},
    "DeltaMergeBuilder": {"option", "retries", "commitInfo"},
    "DeltaTableBuilder": set(),
    "DeltaOptimizeBuilder": set(),
}
RETURNS = {
    "DeltaTable": {
        "DataFrame": "toDF vacuum history detail restoreToVersion restoreToTimestamp",
        "DeltaTable": "alias convertToDelta forPath forName clone cloneAtVersion cloneAtTimestamp",
        "DeltaMergeBuilder": "merge",
        "DeltaOptimizeBuilder": "optimize",
        "DeltaTableBuilder[DeltaTable]": "create createIfNotExists replace createOrReplace",
        "bool": "isDeltaTable",
        "None": "generate upgradeTableProtocol addFeatureSupport dropFeatureSupport",
        "WriteResult": "delete update",  # delta-spark returns nothing
    },
    "DeltaMergeBuilder": {"DataFrame": "execute"},
    "DeltaOptimizeBuilder": {
        "DataFrame": "executeCompaction executeZOrderBy",
        "DeltaOptimizeBuilder": "where",
    },
}
EXCEPTIONS = [
    "DeltaConcurrentModificationException",
    "ConcurrentWriteException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException",
]


def _render_signature(owner, name):
    bound = "classmethod " if inspect.ismethod(getattr(owner, name)) else ""
    signature = inspect.signature(getattr(owner, name))
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    bare = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return f"{bound}{name}{bare}"


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_method_has_delta_sparks_arguments_and_defaults(name):
    owner = getattr(tables, name)
    public = {member for member in vars(owner) if not member.startswith("_")}
    expected = {line.strip() for line in SIGNATURES[name].strip().splitlines()}
    assert {_render_signature(owner, method) for method in public - BEYOND[name]} == expected
    assert public >= BEYOND[name]


@pytest.mark.parametrize("name", RETURNS)
def test_every_method_returns_the_same_type_as_in_delta_spark(name):
    for kind, methods in RETURNS[name].items():
        for method in methods.split():
            annotation = inspect.signature(getattr(getattr(tables, name), method)).return_annotation
            assert getattr(annotation, "__name__", str(annotation)) == kind, method


def test_an_identity_column_begins_at_1_and_rises_by_1():
    assert vars(tables.IdentityGenerator()) == {"start": 1, "step": 1}
    assert vars(tables.IdentityGenerator(5, -2)) == {"start": 5, "step": -2}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_is_one_of_pysparks(name):
    kind = getattr(exceptions, name)
    assert issubclass(kind, PySparkException)
    assert issubclass(kind, exceptions.DeltaConcurrentModificationException)


def test_programs_of_spark_connect_find_the_same_classes():
    assert sorted(connect_tables.__all__) == sorted(tables.__all__)
    assert all(
        getattr(connect_tables, public_name) is getattr(tables, public_name)
        for public_name in tables.__all__
    )


class _Frame:
    sparkSession = "enabled"  # noqa: N815 - as PySpark's

    def writeTo(self, table: str) -> str:  # noqa: N802
        """Write."""
        return f"PySpark writes {table}"

    @property
    def write(self) -> str:
        """The writer."""
        return "PySpark's"


def test_a_routed_method_is_ours_in_enabled_sessions_and_looks_like_pysparks():
    def ours(_frame, table):
        return None if table == "parquet" else f"we write {table}"

    def is_enabled(session):
        return session == "enabled"

    frame = _Frame()
    routed = route(_Frame.writeTo, ours, is_enabled)
    assert inspect.signature(routed) == inspect.signature(_Frame.writeTo)
    assert [routed(frame, table=name) for name in ("t", "parquet")] == [
        "we write t",
        "PySpark writes parquet",
    ]
    property_of_ours = route_property(_Frame.write, lambda _: "ours", is_enabled)
    assert property_of_ours.__doc__ == "The writer."
    assert property_of_ours.__get__(frame) == "ours"
    frame.sparkSession = "another"
    assert (routed(frame, "t"), property_of_ours.__get__(frame)) == (
        "PySpark writes t",
        "PySpark's",
    )
