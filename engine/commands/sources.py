"""Sources of a write's rows: files, literal rows, another table, the program."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, ClassVar, NoReturn, TypeAlias

from engine.commands.fields import parameter, to_json, values_from_json
from engine.commands.names import name_sql, plain_names, quote_name, render_where, table_sql
from engine.errors import RequestError
from engine.expressions.parse import parse_value
from engine.expressions.queries.binder import read_query_text
from engine.expressions.queries.reader import check_calls
from engine.expressions.queries.tables import tables_in_query
from engine.expressions.render import quote_string

FORMATS = ("csv", "json", "parquet", "orc")
BAD_ROWS = ("fail", "drop", "null")
MAX_ROWS = 10_000
_PARSED = 1000
"""Number of values parsed in advance; the run parses them all."""
_VALUES = "written_out"


class _AsJson:
    kind: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values, `kind` among them."""
        return {"kind": self.kind, **{name: to_json(value) for name, value in vars(self).items()}}


@dataclass(frozen=True)
class FileSource(_AsJson):
    """Files of one format under one URI: a file, or a directory with all it holds."""

    kind: ClassVar[str] = "files"
    uri: str = parameter("Location", "text", help="A file or directory under an allowed root.")
    format: str = parameter("Format", "choice", choices=FORMATS)
    header: bool = parameter("First line is a header", "boolean", default=True, help="CSV only.")
    delimiter: str = parameter(
        "Delimiter", "text", default=",", help="For CSV only. One character."
    )
    quote: str = parameter("Quote", "text", default='"', help="For CSV only. One character.")
    null_text: str = parameter("String that means null", "text", default="", help="CSV only.")
    bad_rows: str = parameter(
        "Rows that do not fit",
        "choice",
        default="fail",
        choices=BAD_ROWS,
        help="Fail the job, drop the row, or store null for the value that does not fit.",
    )

    def sql(self) -> str:
        """Render the rows as a SELECT."""
        options = [quote_string(self.uri), f"format => {quote_string(self.format)}"]
        for name, default in _FILE_OPTIONS.items():
            value = getattr(self, name)
            if value != default:
                shown = str(value).lower() if isinstance(value, bool) else quote_string(value)
                options.append(f"{name} => {shown}")
        return f"SELECT * FROM read_files({', '.join(options)})"  # noqa: S608 - never run

    def validate(self) -> None:
        """Refuse an invalid CSV dialect.

        Raises:
            RequestError: a delimiter or quote is not one character.
        """
        for name in ("delimiter", "quote"):
            if len(getattr(self, name)) != 1:
                what = f"The {name} is {getattr(self, name)!r}."
                raise RequestError(what, "Use one character.", field=f"source.{name}")


_EXACT = ("delimiter", "quote", "null_text")
_FILE_OPTIONS: dict[str, Any] = {
    "header": True,
    "delimiter": ",",
    "quote": '"',
    "null_text": "",
    "bad_rows": "fail",
}


@dataclass(frozen=True)
class RowsSource(_AsJson):
    """Rows written out as SQL expressions without columns: INSERT … VALUES.

    `columns` may be empty: then the values are for the table's columns in order.
    """

    kind: ClassVar[str] = "rows"
    columns: tuple[str, ...] = parameter("Columns", "columns", default=())
    rows: tuple[tuple[str, ...], ...] = parameter(
        "Rows", "rows", default=(), help="Each value a SQL literal or expression."
    )

    def sql(self) -> str:
        """Render the rows as VALUES."""
        return "VALUES " + ", ".join(f"({', '.join(row)})" for row in self.rows)

    def query(self) -> str:
        """Render the rows as a SELECT with column names, which VALUES lacks."""
        listed = f" ({', '.join(map(name_sql, plain_names(self.columns)))})" if self.columns else ""
        return f"SELECT * FROM {self.sql()} AS {_VALUES}{listed}"  # noqa: S608 - parsed again

    def validate(self) -> None:
        """Refuse rows of different widths, and invalid values.

        Raises:
            RequestError: there are none, too many, or some of another width.
            ExpressionError: one of the first values does not parse, or names a column.
        """
        widths = {len(row) for row in self.rows} | ({len(self.columns)} if self.columns else set())
        if not self.rows or len(self.rows) > MAX_ROWS or len(widths) != 1 or widths == {0}:
            what = f"There are {len(self.rows)} rows, of {sorted(widths)} values."
            remedy = (
                f"Give 1 to {MAX_ROWS} rows with one value for each column. Load more rows "
                "from a file."
            )
            raise RequestError(what, remedy, field="source.rows")
        for value in islice(chain.from_iterable(self.rows), _PARSED):
            if value.strip().upper() != "DEFAULT":
                parse_value(value)


@dataclass(frozen=True)
class TableSource(_AsJson):
    """Rows of a Delta table: SELECT columns FROM table WHERE condition.

    `table` is a name or URI; `columns` are expressions, each with AS name if it is to have one,
    and empty for all columns.
    """

    kind: ClassVar[str] = "table"
    table: str = parameter("Table", "text", help="The name or location of a Delta table.")
    columns: tuple[str, ...] = parameter("Columns", "expressions", default=())
    where: str | None = parameter("Only rows where", "condition", default=None)
    alias: str = parameter("Alias", "text", default="")
    version: int | None = parameter("Version", "integer", default=None, minimum=0)
    by_position: bool = parameter(
        "Match columns by position", "boolean", default=False, help="Otherwise by name."
    )

    def sql(self) -> str:
        """Render the rows as a SELECT."""
        columns = ", ".join(self.columns) or "*"
        version = "" if self.version is None else f" VERSION AS OF {self.version}"
        alias = f" AS {quote_name(self.alias)}" if self.alias else ""
        return f"SELECT {columns} FROM {table_sql(self.table)}{version}{alias}{render_where(self.where)}"  # noqa: S608

    def tables_read(self) -> tuple[str, ...]:
        """Return the table it names."""
        return (self.table,)

    def validate(self) -> None:
        """Refuse a table without a name, and an invalid query.

        Raises:
            RequestError: (`ExpressionError`) it is invalid.
        """
        if not self.table:
            what = "The source has no table."
            raise RequestError(what, "Name the source table.", field="source.table")
        read_query_text(self.sql())


@dataclass(frozen=True)
class QuerySource(_AsJson):
    """Rows of a SELECT over Delta tables: joins, groups, windows, unions, subqueries.

    `columns` name the output columns in order; empty keeps the query's own names.
    """

    kind: ClassVar[str] = "query"
    query: str = parameter("Query", "text", help="A SELECT over registered tables.")
    columns: tuple[str, ...] = parameter("Columns", "columns", default=())
    by_position: bool = parameter(
        "Match columns by position", "boolean", default=False, help="Otherwise by name."
    )

    def sql(self) -> str:
        """Return the query as written."""
        return self.query

    def tables_read(self) -> tuple[str, ...]:
        """Return the tables it names, as written; raise `ExpressionError` if it does not parse."""
        return tables_in_query(read_query_text(self.query))

    def validate(self) -> None:
        """Refuse an invalid query, and repeated columns.

        Raises:
            ExpressionError: it does not parse; `position` is the offset of the error.
            RequestError: a column is named twice.
        """
        read_query_text(self.query)
        lowered = [column.lower() for column in self.columns]
        if len(set(lowered)) < len(lowered):
            what = f"A column is named twice in {', '.join(self.columns)}."
            raise RequestError(what, "List each column once.", field="source.columns")


@dataclass(frozen=True)
class DataFrameSource:
    """Rows of a DataFrame of the calling program, built only by trusted code: it has no JSON form.

    `frame` is Spark's, and `names` are the qualifiers of its columns in conditions and values.
    `columns`, if given, are its target columns in the table, in order. `save_mode` is that of
    `df.write.save`: the log records a WRITE of this mode even if it creates the table.
    `is_made_anew` means that a retry builds the frame again, as for SQL text.
    """

    kind: ClassVar[str] = "data_frame"
    frame: Any = field(compare=False, repr=False)
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    save_mode: str = ""
    is_made_anew: bool = False

    def sql(self) -> str:
        """Return a placeholder statement."""
        return "SELECT * FROM a_data_frame"

    def validate(self) -> None:
        """Accept everything: Spark knows the content."""

    def as_json(self) -> NoReturn:
        """Refuse: a DataFrame has no JSON form.

        Raises:
            RequestError: always.
        """
        what = "A DataFrame exists only in the calling program."
        raise RequestError(what, "Write its rows to a table or to files first.", field="source")


@dataclass(frozen=True)
class ArrowSource:
    """Rows of the calling program, a `pyarrow.Table` of the engine's types, under a name. It has no JSON."""

    kind: ClassVar[str] = "arrow"
    rows: Any = field(compare=False, repr=False)
    name: str = ""
    by_position: bool = False

    def sql(self) -> str:
        """Render the rows by their name."""
        return f"SELECT * FROM {table_sql(self.name)}"  # noqa: S608 - never run

    def validate(self) -> None:
        """Accept everything: the rows were checked when the source was built."""

    def as_json(self) -> NoReturn:
        """Refuse: rows of the program have no JSON form.

        Raises:
            RequestError: always.
        """
        what = f"The rows {self.name} exist only in the calling program."
        raise RequestError(what, "Write them to a table or to files first.", field="source")


Sendable: TypeAlias = FileSource | RowsSource | TableSource | QuerySource
"""The sources a request can contain."""
Source: TypeAlias = Sendable | DataFrameSource | ArrowSource
SOURCES: dict[str, type[Sendable]] = {
    source_type.kind: source_type
    for source_type in (FileSource, RowsSource, TableSource, QuerySource)
}


def source_from_json(given: Any) -> Sendable:  # noqa: ANN401 - JSON
    """Parse a source from a JSON object.

    Raises:
        RequestError: it is invalid; `field` names the part.
    """
    if isinstance(given, Sendable):
        return given
    if not isinstance(given, Mapping):
        what = "The source must be a JSON object."
        raise RequestError(what, "Send an object with a kind.", field="source")
    kind = given.get("kind")
    model = SOURCES.get(kind) if isinstance(kind, str) else None
    if model is None:
        what = f"There is no source of kind {str(kind)[:100]}."
        raise RequestError(what, f"Use {', '.join(SOURCES)}.", field="source.kind")
    rest = {name: value for name, value in given.items() if name != "kind"}
    return model(**{**values_from_json(model, rest, _PARSE), **exact_texts(rest)})


def exact_texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts with significant blanks, such as a tab as delimiter."""
    return {name: given[name] for name in _EXACT if isinstance(given.get(name), str)}


def _rows(given: Any) -> tuple[tuple[str, ...], ...]:  # noqa: ANN401 - JSON
    if not isinstance(given, list | tuple) or not all(
        isinstance(row, list | tuple) for row in given
    ):
        what = "rows are lists of values"
        raise TypeError(what)
    return tuple(tuple(_literal(value) for value in row) for row in given[: MAX_ROWS + 1])


def _literal(value: Any) -> str:  # noqa: ANN401 - JSON
    """Render a JSON value as a SQL literal; texts are SQL already."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if not isinstance(value, str | int | float):
        what = f"{str(value)[:60]!r} is not a value"
        raise TypeError(what)
    if not isinstance(value, str):
        return repr(value)
    check_calls(value)
    return value.strip()


_PARSE: dict[str, Callable[[Any], Any]] = {"rows": _rows}
