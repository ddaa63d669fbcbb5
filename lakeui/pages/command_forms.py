"""A form for each command, made from what the command declares of its parameters."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.datastructures import MultiValueDict

from engine.commands.model import COMMANDS, FileSource, Parameter, parameters_of
from engine.errors import EngineError
from lakeui.jobs.uploads import format_of

SQL_ONLY = frozenset({"merge"})  # its clauses are written as a statement
_LEFT_OUT = frozenset({"table", "alias"})
_SOURCE = "source."
_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}


class CommandForm(forms.Form):
    """Fields of one kind of command; `parameters` gives what `Command.from_parameters` takes."""

    def __init__(
        self,
        kind: str,
        data: Mapping[str, Any] | None = None,
        files: "MultiValueDict[str, UploadedFile[Any]] | None" = None,
        initial: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(data, files, initial=initial)
        self.kind = kind
        self.declared = [p for p in COMMANDS[kind].declared() if p.name not in _LEFT_OUT]
        for declared in self.declared:
            self.fields.update(_fields(declared))
        for name, field in self.fields.items():
            field.widget.attrs.setdefault("id", f"id_{name}")
            if field.help_text:
                field.widget.attrs["aria-describedby"] = f"id_{name}_hint"

    def parameters(self, source_uri: str = "") -> dict[str, Any]:
        """Of the fields that were filled; call it after `is_valid`."""
        found = {}
        for declared in self.declared:
            if declared.kind == "source":
                found[declared.name] = self._source(source_uri)
            else:
                found[declared.name] = _value(declared, self.cleaned_data[declared.name])
        return {name: value for name, value in found.items() if value is not None}

    def blame(self, error: EngineError) -> None:
        """Puts an engine's error at the field it names."""
        field = str(getattr(error, "field", ""))
        self.add_error(field if field in self.fields else None, str(error))
        for name in self.errors:
            if name in self.fields:
                self.fields[name].widget.attrs["aria-invalid"] = "true"

    def _source(self, source_uri: str) -> dict[str, Any] | None:
        cleaned = self.cleaned_data
        uri = source_uri or cleaned.get(f"{_SOURCE}uri", "")
        if not uri:
            return None
        names = (p.name for p in parameters_of(FileSource) if p.name != "uri")
        values = {name: cleaned.get(f"{_SOURCE}{name}") for name in names}
        values["format"] = values["format"] or format_of(uri)
        kept = {name: value for name, value in values.items() if value not in (None, "")}
        return {"kind": "files", "uri": uri, **kept}


def initial_of(kind: str, query: Mapping[str, str]) -> dict[str, Any]:
    """What an address fills in beforehand."""
    names = {p.name for p in COMMANDS[kind].declared()}
    return {name: value for name, value in query.items() if name in names}


def _fields(declared: Parameter) -> Iterator[tuple[str, forms.Field]]:
    if declared.kind != "source":
        yield declared.name, _field(declared)
        return
    yield (
        f"{_SOURCE}file",
        forms.FileField(
            label="File to upload",
            required=False,
            help_text="CSV, JSON, Parquet or ORC. It is kept on the server until the job has run.",
            widget=forms.FileInput(attrs={"accept": ".csv,.json,.jsonl,.parquet,.orc"}),
        ),
    )
    for part in parameters_of(FileSource):
        field = _field(part)
        field.required = False
        if part.name == "format":
            field.choices = [("", "by the name of the file"), *field.choices]  # type: ignore[attr-defined]
        if part.name == "uri":
            field.label = "Or a location"
        yield f"{_SOURCE}{part.name}", field


def _field(declared: Parameter) -> forms.Field:
    made = _FIELDS.get(declared.kind, _TEXT)
    hint = f"{declared.help} {made.hint}".strip()
    given: dict[str, Any] = {
        "label": declared.label,
        "help_text": hint,
        "required": declared.required and declared.kind != "boolean",
        "initial": declared.default if isinstance(declared.default, str | int | float) else None,
    }
    if declared.kind in {"integer", "number"}:
        given["min_value"] = declared.minimum
    elif declared.kind == "choice":
        given["choices"] = [(choice, choice) for choice in declared.choices]
    elif made.rows:
        given["widget"] = forms.Textarea(attrs=_MONO | {"rows": made.rows})
    elif made.field is forms.CharField:
        given |= {"strip": False, "widget": forms.TextInput(attrs=_MONO)}
    return made.field(**given)


@dataclass(frozen=True, slots=True)
class _Made:
    """How one kind of parameter is asked for, and read from what was typed."""

    field: type[forms.Field] = forms.CharField
    rows: int = 0
    hint: str = ""
    read: Callable[[str], object] | None = None


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(text: str) -> dict[str, str]:
    """`name = value` a line; a line without `=` is a name with an empty value."""
    lines = (line.partition("=") for line in text.splitlines() if line.strip())
    return {name.strip(): value.strip() for name, _, value in lines}


def _json(text: str) -> object:
    """The text itself where it is no JSON: the command says what is wrong with it."""
    try:
        return json.loads(text)
    except ValueError:
        return text


_TEXT = _Made()
_FIELDS = {
    "boolean": _Made(forms.BooleanField),
    "integer": _Made(forms.IntegerField),
    "number": _Made(forms.FloatField),
    "choice": _Made(forms.ChoiceField),
    "condition": _Made(rows=2),
    "expression": _Made(rows=2),
    "mapping": _Made(rows=3, hint="One name = value a line.", read=_pairs),
    "schema": _Made(rows=4, hint="As Delta's schema JSON.", read=_json),
    "columns": _Made(hint="Commas between.", read=_listed),
    "texts": _Made(hint="Commas between.", read=_listed),
}


def _value(declared: Parameter, cleaned: Any) -> Any:  # noqa: ANN401 - a field's value
    if declared.kind == "boolean":
        return bool(cleaned)
    if cleaned in (None, ""):
        return None
    read = _FIELDS.get(declared.kind, _TEXT).read
    return read(cleaned) if read else cleaned
