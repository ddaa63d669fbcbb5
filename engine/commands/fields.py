"""Fields of commands, described for forms, schemas and the command line.

A field is declared once, with `parameter`. `to_json` and `from_json` convert its values.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

from engine.errors import InvalidSchemaError, RequestError
from engine.expressions.literals import is_whole
from engine.expressions.queries.reader import check_calls
from engine.schema.types import StructType, parse_schema, type_to_json

COLUMN_RULES = frozenset({"delta.generationExpression", "CURRENT_DEFAULT"})
"""Keys of a column's metadata whose values are expressions."""
MAX_TEXT = 65_536
MAX_ITEMS = 10_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """The display and transfer of a field.

    `kind` is one of text, condition, expression, expressions, assignments (column to expression),
    columns, integer, number, boolean, choice, mapping (text to text), texts, schema, timestamp,
    source, clauses, steps. `json_type` is the matching JSON Schema type.
    """

    name: str
    label: str
    kind: str
    help: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    default: Any = None
    minimum: int | None = None

    @property
    def json_type(self) -> str:
        """The type of its value in JSON Schema."""
        return _JSON_TYPES[self.kind]


_JSON_TYPES = {
    **dict.fromkeys(("text", "condition", "expression", "choice", "timestamp"), "string"),
    **dict.fromkeys(("columns", "texts", "expressions", "clauses", "rows", "steps"), "array"),
    **dict.fromkeys(("mapping", "assignments", "schema", "source"), "object"),
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}


def parameter(
    label: str,
    kind: str,
    *,
    default: Any = MISSING,  # noqa: ANN401 - any value
    help: str = "",
    choices: tuple[str, ...] = (),
    minimum: int | None = None,
) -> Any:  # noqa: ANN401 - a dataclass field
    """Declare a field of a command; without `default` it is required."""
    metadata = {"label": label, "kind": kind, "help": help, "choices": choices, "minimum": minimum}
    if kind in {"mapping", "assignments"} and default is not MISSING:
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def parameters_of(model: type) -> tuple[Parameter, ...]:
    """Return the declared fields of a command, a source or a clause, in order."""
    return tuple(_parameter(column) for column in fields(model) if "kind" in column.metadata)


def _parameter(model_field: "Field[Any]") -> Parameter:
    given = model_field.default is not MISSING or model_field.default_factory is not MISSING
    default = model_field.default if model_field.default is not MISSING else None
    if model_field.default_factory is not MISSING:
        default = {}
    return Parameter(
        model_field.name,
        model_field.metadata["label"],
        model_field.metadata["kind"],
        model_field.metadata["help"],
        model_field.metadata["choices"],
        required=not given,
        default=default,
        minimum=model_field.metadata["minimum"],
    )


def to_json(value: Any) -> Any:  # noqa: ANN401 - a field's value to JSON
    """Convert a field's value to JSON."""
    if isinstance(value, StructType):
        return type_to_json(value)
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    as_json = getattr(value, "as_json", None)
    return as_json() if as_json else value


def values_from_json(
    model: type, given: Mapping[str, Any], parse: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    """Convert and check the values of a model's fields from JSON.

    Args:
        model: a dataclass of `parameter` fields.
        given: by field name; nulls count as omitted.
        parse: converters for kinds defined above this module (source, clauses).

    Raises:
        RequestError: a field is unknown, missing, or of the wrong type; `field` names it.
    """
    parameters = {parameter.name: parameter for parameter in parameters_of(model)}
    for name in given:
        if name not in parameters:
            what = f"There is no parameter called {str(name)[:100]}."
            raise RequestError(
                what, f"The parameters are {', '.join(parameters)}.", field=str(name)[:100]
            )
    present = {name: value for name, value in given.items() if value is not None}
    missing = [
        parameter.name
        for parameter in parameters.values()
        if parameter.required and parameter.name not in present
    ]
    if missing:
        what = f"{parameters[missing[0]].label} is missing."
        raise RequestError(what, f"Give {missing[0]}.", field=missing[0])
    return {name: _convert_value(parameters[name], value, parse) for name, value in present.items()}


def _convert_value(
    declared: Parameter,
    value: Any,  # noqa: ANN401
    parse: Mapping[str, Callable[[Any], Any]],
) -> Any:  # noqa: ANN401 - a field's value
    convert = parse.get(declared.kind) or _CONVERTERS.get(declared.kind, _text)
    try:
        converted = convert(value)
    except RequestError as error:
        error.field = _join_path(declared.name, error.field)
        raise
    except (TypeError, ValueError) as error:
        what = f"{declared.label} is not {_WANTED.get(declared.kind, 'a text')}: {error}."
        raise RequestError(what, "Correct it.", field=declared.name) from error
    if declared.choices and converted not in declared.choices:
        what = f"{declared.label} cannot be {str(converted)[:100]!r}."
        raise RequestError(what, f"Use {', '.join(declared.choices)}.", field=declared.name)
    if declared.minimum is not None and converted < declared.minimum:
        what = f"{declared.label} cannot be {converted}."
        raise RequestError(what, f"Use at least {declared.minimum}.", field=declared.name)
    return converted


def _join_path(outer: str, inner: str) -> str:
    return inner if inner.partition(".")[0] == outer else f"{outer}.{inner}".rstrip(".")


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(value, str) or len(value) > MAX_TEXT or "\0" in value:
        what = f"{str(value)[:60]!r}"
        raise TypeError(what)
    return value.strip()


def _texts(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple) or len(value) > MAX_ITEMS:
        what = f"{str(value)[:60]!r}"
        raise TypeError(what)
    return tuple(_text(item) for item in value)


def _convert_mapping(value: Any) -> Mapping[str, str]:  # noqa: ANN401 - JSON
    if not isinstance(value, Mapping) or len(value) > MAX_ITEMS:
        what = f"{str(value)[:60]!r}"
        raise TypeError(what)
    return {_text(key): _text(_scalar(item)) for key, item in value.items()}


def _expression(value: Any) -> str:  # noqa: ANN401 - JSON
    """Check the functions of an SQL expression; its columns are checked against a schema later."""
    text = _text(value)
    check_calls(text)
    return text


def _expressions(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON
    return tuple(_expression(text) for text in _texts(value))


def _assignments(value: Any) -> Mapping[str, str]:  # noqa: ANN401 - JSON
    return {column: _expression(text) for column, text in _convert_mapping(value).items()}


def _scalar(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _integer(value: Any) -> int:  # noqa: ANN401 - JSON
    if isinstance(value, str) and is_whole(value.strip().removeprefix("-")) and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        what = f"{str(value)[:60]!r}"
        raise TypeError(what)
    return value


def _number(value: Any) -> float:  # noqa: ANN401 - JSON
    number = (
        float(value)
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else None
    )
    if number is None or not abs(number) < float("inf"):
        what = f"{str(value)[:60]!r}"
        raise TypeError(what)
    return number


def _boolean(value: Any) -> bool:  # noqa: ANN401 - JSON
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    if not isinstance(value, bool):
        what = f"{str(value)[:60]!r}"
        raise TypeError(what)
    return value


def _schema(value: Any) -> StructType:  # noqa: ANN401 - JSON
    try:
        schema = parse_schema(value, keeps_foreign=False)
    except InvalidSchemaError as error:
        remedy = error.remedy or "Send a struct type in Delta's schema JSON."
        raise InvalidSchemaError(error.what, remedy) from error
    for column in schema:
        for key in COLUMN_RULES & column.metadata.keys():
            check_calls(str(column.metadata[key]))
    return schema


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "condition": _expression,
    "expression": _expression,
    "expressions": _expressions,
    "assignments": _assignments,
    "columns": _texts,
    "texts": _texts,
    "mapping": _convert_mapping,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "schema": _schema,
}
_WANTED = {
    "columns": "a list of columns",
    "texts": "a list of texts",
    "mapping": "an object of texts",
    "expressions": "a list of expressions",
    "assignments": "an object of expressions",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "schema": "a schema",
    "source": "a source",
    "clauses": "a list of clauses",
    "steps": "a list of commands",
}
