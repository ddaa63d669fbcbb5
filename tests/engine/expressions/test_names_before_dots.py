"""The name before a dot: the table's alias, then a struct column, then other names."""

import pytest

from engine.errors import UnknownColumnError
from engine.expressions.scope import Relation, Scope
from engine.schema.types import INTEGER, STRING, StructField, StructType

TARGET = StructType(
    (
        StructField("a", INTEGER),
        StructField("b", INTEGER),
        StructField("source", StructType((StructField("kind", STRING),))),
    )
)
SOURCE = StructType((StructField("a", INTEGER), StructField("kind", STRING)))


def _scope(target: tuple[str, ...], source: tuple[str, ...]) -> Scope:
    return Scope((Relation(TARGET, "target", target), Relation(SOURCE, "source", source)))


@pytest.mark.parametrize(
    ("target", "source", "path", "expected"),
    [
        (("x", "t"), ("t",), "t.a", ("source", ("a",))),
        (("x", "t"), ("t",), "x.a", ("target", ("a",))),
        (("x", "t"), ("s", "u"), "t.a", ("target", ("a",))),
        (("x", "t"), ("s", "u"), "U.a", ("source", ("a",))),
        (("source",), ("target",), "source.a", ("target", ("a",))),
        (("source",), ("target",), "Target.a", ("source", ("a",))),
        (("t",), ("s",), "source.a", ("source", ("a",))),
        (("t",), ("s",), "source.kind", ("target", ("source", "kind"))),
        (("t",), ("s",), "t.source.kind", ("target", ("source", "kind"))),
        (("t",), ("source",), "source.kind", ("source", ("kind",))),
    ],
)
def test_a_name_before_a_dot_is_looked_for_where_spark_looks(
    target: tuple[str, ...], source: tuple[str, ...], path: str, expected: tuple[str, tuple]
):
    column = _scope(target, source).resolve(path.split("."))
    assert (column.relation, column.path) == expected


def test_the_name_of_one_table_means_no_other_one():
    with pytest.raises(UnknownColumnError):
        _scope(("x", "t"), ("t",)).resolve(["t", "b"])
    alone = Relation(TARGET, "target", ("x", "t"))
    with pytest.raises(UnknownColumnError):
        Scope((alone,), taken="t").resolve(["t", "a"])
    assert Scope((alone,)).resolve(["t", "a"]).relation == "target"


def test_a_database_before_a_table_takes_precedence_over_a_struct_column():
    fields = (*SOURCE.fields, StructField("db", StructType((StructField("s", SOURCE),))))
    catalog = ("main", "db")
    scope = Scope(
        (
            Relation(TARGET, "target", ("t",), catalog),
            Relation(StructType(fields), "source", ("s", "table"), catalog),
        )
    )
    for path, expected in (
        ("db.t.a", ("target", ("a",))),
        ("MAIN.Db.T.source.kind", ("target", ("source", "kind"))),
        ("db.s.a", ("source", ("a",))),
        ("db.s.db.s.kind", ("source", ("db", "s", "kind"))),
        ("s.db.s.kind", ("source", ("db", "s", "kind"))),
    ):
        column = scope.resolve(path.split("."))
        assert (column.relation, column.path) == expected, path
    for path in ("main.t.a", "db.table.a", "other.t.a", "db.t"):
        with pytest.raises(UnknownColumnError):
            scope.resolve(path.split("."))
