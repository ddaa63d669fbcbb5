"""Commands for table definitions: create, clone, set and unset properties."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from engine.commands.column_sql import columns_sql
from engine.commands.command import Command, check_columns, check_new_columns, check_source
from engine.commands.fields import parameter
from engine.commands.maintenance import check_point, point_sql
from engine.commands.names import column_list, properties_sql, table_sql
from engine.commands.sources import Source
from engine.errors import RequestError
from engine.expressions.queries.reader import check_calls
from engine.expressions.render import quote_string
from engine.protocol.properties import constraint_name, validate_properties
from engine.schema.types import StructType
from engine.schema.write_errors import TwoLayoutsError
from engine.vocabulary import (
    CLONE,
    CLONE_TO_NEW,
    CREATE,
    CREATE_AS_SELECT,
    REPLACE,
    REPLACE_AS_SELECT,
    SET_CONSTRAINT,
    SET_PROPERTIES,
    Operation,
)

DESCRIPTION = "comment"
"""The property that sets the table's description in SET TBLPROPERTIES, as in Spark."""


@dataclass(frozen=True)
class Create(Command):
    """A new table, empty or with the rows of a source."""

    kind: ClassVar[str] = "create"
    help: ClassVar[str] = "Create a table. If a source is given, load it into the table."
    schema: StructType | None = parameter(
        "Schema", "schema", default=None, help="The source's columns by default."
    )
    partition_columns: tuple[str, ...] = parameter("Partition by", "columns", default=())
    clustering_columns: tuple[str, ...] = parameter("Cluster by", "columns", default=())
    properties: Mapping[str, str] = parameter("Properties", "mapping", default={})
    source: Source | None = parameter("Source", "source", default=None)
    if_not_exists: bool = parameter(
        "IF NOT EXISTS: only if there is no table",
        "boolean",
        default=False,
        help="If the table exists, nothing is done.",
    )
    replace: bool = parameter(
        "Replace", "boolean", default=False, help="Replace an existing table, including its schema."
    )
    description: str = parameter("Description", "text", default="")

    @property
    def operation(self) -> Operation:
        """The operation: only OR REPLACE replaces an existing table."""
        if self.source is None:
            return REPLACE if self.replace else CREATE
        return REPLACE_AS_SELECT if self.replace else CREATE_AS_SELECT

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002
        """Refuse invalid parameters; the schema of an existing table does not matter."""
        check_source(self.source)
        if self.schema is None and self.source is None:
            what = "The table has neither columns nor a source."
            raise RequestError(what, "Add columns or a source.", field="schema")
        if self.partition_columns and self.clustering_columns:
            what = "A table cannot be both partitioned and clustered."
            raise TwoLayoutsError(what, "Choose one.", field="clustering_columns")
        if self.if_not_exists and self.replace:
            what = "IF NOT EXISTS and OR REPLACE cannot be combined."
            raise RequestError(what, "Choose one.", field="replace")
        if self.schema is not None:
            check_new_columns(self.schema, "schema")
        _check_properties(self.properties)
        check_columns(self.partition_columns, self.schema, "partition_columns")
        check_columns(self.clustering_columns, self.schema, "clustering_columns")

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        head = "CREATE OR REPLACE TABLE" if self.replace else "CREATE TABLE"
        guard = " IF NOT EXISTS" if self.if_not_exists else ""
        columns = f" ({columns_sql(self.schema)})" if self.schema is not None else ""
        return f"{head}{guard} {table_sql(self.table)}{columns} USING DELTA{self._layout()}"

    def _layout(self) -> str:
        parts = []
        if self.partition_columns:
            parts.append(f"PARTITIONED BY {column_list(self.partition_columns)}")
        if self.clustering_columns:
            parts.append(f"CLUSTER BY {column_list(self.clustering_columns)}")
        if self.description:
            parts.append(f"COMMENT {quote_string(self.description)}")
        if self.properties:
            parts.append(f"TBLPROPERTIES {properties_sql(self.properties)}")
        if self.source is not None:
            parts.append(f"AS {self.source.sql()}")
        return "".join(f" {part}" for part in parts)


@dataclass(frozen=True)
class Clone(Command):
    """A table over the files of a version of another one, or over copies of them."""

    kind: ClassVar[str] = "clone"
    help: ClassVar[str] = (
        "Make the table a clone of another table. A shallow clone shares the files, a deep "
        "clone copies them."
    )
    source_table: str = parameter("Clone of", "text", help="The name or location of a Delta table.")
    version: int | None = parameter(
        "At version", "integer", default=None, minimum=0, help="The latest version by default."
    )
    timestamp: str | None = parameter(
        "At time",
        "timestamp",
        default=None,
        help="The version that was current at this time, in UTC.",
    )
    if_not_exists: bool = parameter(
        "IF NOT EXISTS: only if there is no table",
        "boolean",
        default=False,
        help="If the table exists, nothing is done.",
    )
    replace: bool = parameter(
        "Replace", "boolean", default=False, help="Replace an existing table, including its schema."
    )
    deep: bool = parameter(
        "Copy the files",
        "boolean",
        default=False,
        help="The clone then does not depend on its source. With replace, cloning again "
        "copies only new files.",
    )

    @property
    def operation(self) -> Operation:
        """The operation: only OR REPLACE replaces an existing table."""
        return CLONE if self.replace else CLONE_TO_NEW

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002
        """Refuse invalid parameters; the schema of an existing table does not matter."""
        if not self.source_table:
            what = "The clone has no source."
            raise RequestError(what, "Name the table to clone.", field="source_table")
        if self.if_not_exists and self.replace:
            what = "IF NOT EXISTS and OR REPLACE cannot be combined."
            raise RequestError(what, "Choose one.", field="replace")
        check_point(self.version, self.timestamp, "CLONE")

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        head = "CREATE OR REPLACE TABLE" if self.replace else "CREATE TABLE"
        guard = " IF NOT EXISTS" if self.if_not_exists else ""
        point = point_sql(self.version, self.timestamp)
        source = f"{table_sql(self.source_table)} {point}".rstrip()
        depth = "DEEP" if self.deep else "SHALLOW"
        return f"{head}{guard} {table_sql(self.table)} {depth} CLONE {source}"


@dataclass(frozen=True)
class SetProperties(Command):
    """Set table properties."""

    kind: ClassVar[str] = "set_properties"
    help: ClassVar[str] = "Set table properties. Concurrent writes will fail."
    properties: Mapping[str, str] = parameter("Properties", "mapping")

    @property
    def operation(self) -> Operation:
        """The operation: a constraint reads every row."""
        sets_constraint = any(constraint_name(key) is not None for key in self.properties)
        return SET_CONSTRAINT if sets_constraint else SET_PROPERTIES

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if not self.properties or not all(self.properties):
            what = "The statement names no property to set."
            raise RequestError(what, "Give at least one.", field="properties")
        _check_properties(self.properties)

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        properties = properties_sql(self.properties)
        return f"ALTER TABLE {table_sql(self.table)} SET TBLPROPERTIES {properties}"


@dataclass(frozen=True)
class UnsetProperties(Command):
    """Take table properties away."""

    kind: ClassVar[str] = "unset_properties"
    help: ClassVar[str] = "Unset table properties. Concurrent writes will fail."
    keys: tuple[str, ...] = parameter("Properties", "texts")
    if_exists: bool = parameter(
        "IF EXISTS: skip properties that are not set",
        "boolean",
        default=False,
        help="Without it, a property that is not set is an error.",
    )

    def validate(self, schema: StructType | None) -> None:  # noqa: ARG002
        """Refuse invalid parameters, and if a schema is given, those invalid for it."""
        if not self.keys or not all(self.keys):
            what = "The statement names no property to unset."
            raise RequestError(what, "Give at least one.", field="keys")

    def statement(self) -> str:
        """Render the command as SQL; `parse_statement` returns an equal command."""
        guard = " IF EXISTS" if self.if_exists else ""
        keys = column_list(tuple(quote_string(key) for key in self.keys))
        return f"ALTER TABLE {table_sql(self.table)} UNSET TBLPROPERTIES{guard} {keys}"


def _check_properties(properties: Mapping[str, str]) -> None:
    """Refuse unknown properties, invalid values, and constraints with unlisted functions."""
    validate_properties(properties)
    for key, text in properties.items():
        if constraint_name(key) is not None:
            check_calls(text)
