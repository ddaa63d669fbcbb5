"""`DeltaTable.create` and its sisters: a table's columns, layout and place, one call each."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from engine.delta.arguments import names, refuse
from engine.delta.creation import NewTableDefinition, create_table
from engine.delta.exceptions import delta_errors
from engine.delta.handle import Handle
from engine.schema.arrow import check_supported
from engine.schema.types import StructField, StructType, type_from_json

_Table = TypeVar("_Table")


@dataclass
class IdentityGenerator:
    """How a column numbers its rows: from `start`, by `step`."""

    start: int = 1
    step: int = 1


class DeltaTableBuilder(Generic[_Table]):
    """Builder of a table; `DeltaTable.create` and its sisters make one. Calls change it in place."""

    def __init__(
        self,
        spark: SparkSession,
        make: Callable[[Handle], _Table],
        *,
        if_not_exists: bool = False,
        replace_it: bool = False,
        must_exist: bool = False,
    ) -> None:
        """Begin the definition of a table for `DeltaTable.create` and its variants."""
        self._spark, self._make = spark, make
        self._definition = NewTableDefinition(
            if_not_exists=if_not_exists, replace=replace_it, must_exist=must_exist
        )

    def tableName(self, identifier: str) -> "DeltaTableBuilder[_Table]":  # noqa: N802 - delta-spark's
        """Set the name in the catalog, optionally with its database."""
        if type(identifier) is not str:
            refuse("Identifier must be str.", [identifier])
        return self._set(name=identifier)

    def location(self, location: str) -> "DeltaTableBuilder[_Table]":
        """Set the location of its files."""
        if type(location) is not str:
            refuse("Location must be str.", [location])
        return self._set(location=location)

    def comment(self, comment: str) -> "DeltaTableBuilder[_Table]":
        """Set the table's description."""
        if type(comment) is not str:
            refuse("Table comment must be str.", [comment])
        return self._set(description=comment)

    def addColumn(  # noqa: N802
        self,
        colName: str,  # noqa: N803
        dataType: str | T.DataType,  # noqa: N803
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,  # noqa: N803
        generatedByDefaultAs: IdentityGenerator | None = None,  # noqa: N803
        comment: str | None = None,
    ) -> "DeltaTableBuilder[_Table]":
        """Add one column; raise `ParseException` if Spark does not know the type."""
        if type(colName) is not str:
            refuse("Column name must be str.", [colName])
        if type(dataType) is not str and not isinstance(dataType, T.DataType):
            refuse("Column data type must be str or DataType.", [dataType])
        if type(nullable) is not bool:
            refuse("Column nullable must be bool.", [nullable])
        metadata = _generation(generatedAlwaysAs, generatedByDefaultAs)
        if comment is not None:
            if type(comment) is not str:
                refuse("Column comment must be str.", [comment])
            metadata["comment"] = comment
        column = _Column(colName, dataType, nullable, metadata)
        return self._set(columns=(*self._definition.columns, column.field()))

    def addColumns(  # noqa: N802
        self, cols: T.StructType | list[T.StructField]
    ) -> "DeltaTableBuilder[_Table]":
        """Add the columns of a schema."""
        if isinstance(cols, list):
            for col in cols:
                if type(col) is not T.StructField:
                    refuse("Column in existing schema must be StructField.", [col])
            cols = T.StructType(cols)
        if type(cols) is not T.StructType:
            refuse("Schema must be StructType or a list of StructField.", [cols])
        with delta_errors():
            parsed = type_from_json(json.loads(cols.json()))
        fields = parsed.fields if isinstance(parsed, StructType) else ()
        return self._set(columns=(*self._definition.columns, *fields))

    def partitionedBy(  # noqa: N802
        self, *cols: str | list[str] | tuple[str, ...]
    ) -> "DeltaTableBuilder[_Table]":
        """Set the partition columns."""
        return self._set(partition_columns=names(cols, "Partitioning column must be str."))

    def clusterBy(  # noqa: N802
        self, *cols: str | list[str] | tuple[str, ...]
    ) -> "DeltaTableBuilder[_Table]":
        """Set the clustering columns."""
        return self._set(clustering_columns=names(cols, "Clustering column must be str."))

    def property(self, key: str, value: str) -> "DeltaTableBuilder[_Table]":
        """Set a table property."""
        if type(key) is not str or type(value) is not str:
            refuse("Key and value of property must be string.", [key, value])
        return self._set(properties={**self._definition.properties, key: value})

    def execute(self) -> _Table:
        """Create the table.

        Raises:
            AnalysisException: it exists, there is none to replace, or the definition is impossible.
        """
        with delta_errors():
            return self._make(create_table(self._spark, self._definition))

    def _set(self, **changes: Any) -> "DeltaTableBuilder[_Table]":  # noqa: ANN401
        self._definition = replace(self._definition, **changes)
        return self


@dataclass(frozen=True)
class _Column:
    name: str
    kind: str | T.DataType
    nullable: bool
    metadata: dict[str, Any] = field(default_factory=dict)

    def field(self) -> StructField:
        kind = T._parse_datatype_string(self.kind) if isinstance(self.kind, str) else self.kind
        with delta_errors():
            data_type = type_from_json(json.loads(kind.json()), keeps_foreign=True)
            check_supported([StructField(self.name, data_type)])
        return StructField(self.name, data_type, self.nullable, self.metadata)


def _generation(always: object, by_default: object) -> dict[str, Any]:
    """Return the metadata of a generated or identity column, as Delta's schemas hold it.

    Raises:
        TypeError: it is generated from neither an expression nor numbers.
        ValueError: both are given, or the step is 0.
    """
    if always is not None and by_default is not None:
        msg = "generatedByDefaultAs and generatedAlwaysAs cannot both be set."
        raise ValueError(msg, [by_default, always])
    if type(always) is str:
        return {"delta.generationExpression": always}
    if always is not None and not isinstance(always, IdentityGenerator):
        refuse("Generated always as expression must be str or IdentityGenerator.", [always])
    if by_default is not None and not isinstance(by_default, IdentityGenerator):
        refuse("Generated by default expression must be IdentityGenerator.", [by_default])
    generator = always if always is not None else by_default
    if not isinstance(generator, IdentityGenerator):
        return {}
    if generator.step == 0:
        msg = "Column identity generation requires step to be non-zero."
        raise ValueError(msg)
    return {
        "delta.identity.start": generator.start,
        "delta.identity.step": generator.step,
        "delta.identity.allowExplicitInsert": by_default is not None,
    }
