"""A field for each kind of declared parameter, and the parsing of its input."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms

from engine.commands.model import Command, Parameter
from engine.commands.sql import parse_statement

_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}


@dataclass(frozen=True, slots=True)
class _FieldFactory:
    """The field of one kind of parameter, and the parsing of its input."""

    field: type[forms.Field] = forms.CharField
    rows: int = 0
    hint: str = ""
    read: Callable[[str], object] | None = None
    write: Callable[[Any], object] | None = None


def field_of(declared: Parameter) -> forms.Field:
    """Return the form field of a parameter."""
    made = _MADE.get(declared.kind, _TEXT)
    hint = _label_choices(f"{declared.help} {made.hint}".strip(), declared.choices)
    given: dict[str, Any] = {
        "label": declared.label,
        "help_text": hint,
        "required": declared.required and declared.kind != "boolean",
        "initial": declared.default if isinstance(declared.default, str | int | float) else None,
    }
    if declared.kind in {"integer", "number"}:
        given["min_value"] = declared.minimum
    elif declared.kind == "choice":
        given["choices"] = [(choice, _choice_label(choice)) for choice in declared.choices]
    elif made.rows:
        given["widget"] = forms.Textarea(attrs=_MONO | {"rows": made.rows})
    elif made.field is forms.CharField:
        given |= {"strip": False, "widget": forms.TextInput(attrs=_MONO)}
    return made.field(**given)


def value_of(declared: Parameter, cleaned: Any) -> Any:  # noqa: ANN401 - a field's value
    """Return the input of `Command.from_parameters`; None without input."""
    if declared.kind == "boolean":
        return bool(cleaned)
    if cleaned in (None, ""):
        return None
    read = _MADE.get(declared.kind, _TEXT).read
    return read(cleaned) if read else cleaned


def text_of(declared: Parameter, value: Any) -> Any:  # noqa: ANN401 - a parameter's value
    """Return the text to type for a value; None if a field of this kind cannot hold it."""
    write = _MADE.get(declared.kind, _TEXT).write
    return write(value) if write else value


def _choice_label(choice: str) -> str:
    return choice.replace("_", " ")


def _label_choices(hint: str, choices: Sequence[str]) -> str:
    """Name the choices in a hint as the list beside it does."""
    for choice in choices:
        hint = hint.replace(choice, _choice_label(choice))
    return hint


def _split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if line.strip())
    return {name.strip().strip("'"): value.strip().strip("'") for name, _, value in lines}


def _json(text: str) -> object:
    """Parse JSON; return invalid text itself: the command reports its error."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _rows(text: str) -> object:
    """Lines of SQL values, with brackets around each or without; read as INSERT reads them."""
    lines = (line.strip().rstrip(",") for line in text.splitlines() if line.strip())
    values = ", ".join(line if line.startswith("(") else f"({line})" for line in lines)
    command = parse_statement(f"INSERT INTO t VALUES {values}")  # noqa: S608 - read, never run
    return command.parameters()["source"]["rows"]


def _steps(text: str) -> object:
    """Statements as the SQL box takes them, as the steps they are."""
    command: Command = parse_statement(text)
    parameters = command.parameters()
    return parameters.get("steps") or [{"kind": command.kind, "parameters": parameters}]


def _lines(pairs: Mapping[str, str]) -> str:
    return "\n".join(f"{name} = {value}" for name, value in pairs.items())


def _nothing(_: object) -> None:
    """Return nothing: rows and steps are written as SQL, which cannot be rendered back yet."""


_TEXT = _FieldFactory()
_MADE = {
    "boolean": _FieldFactory(forms.BooleanField),
    "integer": _FieldFactory(forms.IntegerField),
    "number": _FieldFactory(forms.FloatField),
    "choice": _FieldFactory(forms.ChoiceField),
    "condition": _FieldFactory(rows=2),
    "expression": _FieldFactory(rows=2),
    "query": _FieldFactory(rows=5),
    "mapping": _FieldFactory(rows=3, hint="One name = value a line.", read=_pairs, write=_lines),
    "schema": _FieldFactory(rows=4, hint="As Delta's schema JSON.", read=_json, write=json.dumps),
    "rows": _FieldFactory(rows=4, hint="A row a line, commas between: 1, 'open', DATE '2026-11-20'.", read=_rows, write=_nothing),
    "steps": _FieldFactory(rows=6, hint="Write them as SQL, with ; between.", read=_steps, write=_nothing),
    "columns": _FieldFactory(hint="Commas between.", read=_split_list, write=", ".join),
    "expressions": _FieldFactory(hint="Commas between.", read=_split_list, write=", ".join),
    "assignments": _FieldFactory(rows=3, hint="One name = value a line.", read=_pairs, write=_lines),
    "texts": _FieldFactory(hint="Commas between.", read=_split_list, write=", ".join),
}  # fmt: skip
