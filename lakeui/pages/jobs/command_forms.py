"""A form for each command, generated from its declared parameters.

Its parts are single fields, a choice of sources, and repeated clauses. A part knows the names of
its fields, how to read them together, and which field an engine's error is about. Templates draw a
part by its `shape`. Each kind of parameter has a field and a parser of its input.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, ClassVar, get_args, get_type_hints

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.datastructures import MultiValueDict

from engine.commands.model import (
    COMMANDS,
    SOURCES,
    Command,
    FileSource,
    Parameter,
    QuerySource,
    parameters_of,
)
from engine.commands.sql import parse_statement
from engine.errors import EngineError
from lakeui.jobs.uploads import format_of

_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}

MAX_REPEATS = 20
_HIDDEN = frozenset({"alias"})
_FORMATS = ".csv,.json,.jsonl,.parquet,.orc"
Cleaned = Mapping[str, Any]

_LEFT_OUT = frozenset({"table", "alias"})
MORE = "more"
"""Of a button: the repeated parameter to show one more of."""


@dataclass(frozen=True, slots=True)
class SingleField:
    """One field.

    Like every part: `fields` are its form fields by name; `read` returns the parameter's value,
    None without input (`uploads`: kept files by field); `field_at_fault` is the form field that an
    engine's error names by its path, if it is one of them.
    """

    shape: ClassVar[str] = "single"
    declared: Parameter
    name: str

    def fields(self) -> Iterator[tuple[str, forms.Field]]:
        yield self.name, field_of(self.declared)

    def read(self, cleaned: Cleaned, uploads: Mapping[str, str]) -> Any:  # noqa: ANN401, ARG002
        return value_of(self.declared, cleaned.get(self.name))

    def field_at_fault(self, path: str, cleaned: Cleaned) -> str | None:  # noqa: ARG002
        return self.name if path.partition(".")[0] == self.declared.name else None


@dataclass(frozen=True, slots=True)
class Option:
    """One kind of a choice with its fields."""

    value: str
    label: str
    help: str
    parts: tuple[SingleField, ...]
    upload: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its form fields, in order."""
        own = tuple(part.name for part in self.parts)
        return (self.upload, *own) if self.upload else own


@dataclass(frozen=True, slots=True)
class Choice:
    """A source: its kind, and the fields of each kind. Those of the others are not read."""

    shape: ClassVar[str] = "choice"
    declared: Parameter
    options: tuple[Option, ...]

    @property
    def selector(self) -> str:
        return f"{self.declared.name}.kind"

    def fields(self) -> Iterator[tuple[str, forms.Field]]:
        choices = [(option.value, option.label) for option in self.options]
        yield (
            self.selector,
            forms.ChoiceField(choices=choices, initial=choices[0][0], required=False),
        )
        for option in self.options:
            if option.upload:
                yield option.upload, _upload_field()
            for part in option.parts:
                for name, field in part.fields():
                    field.required = False  # only the chosen kind's fields count
                    yield name, _add_blank_choice(field)

    def read(self, cleaned: Cleaned, uploads: Mapping[str, str]) -> Any:  # noqa: ANN401
        option = self.find_option(cleaned)
        values = {part.declared.name: part.read(cleaned, uploads) for part in option.parts}
        if option.upload:
            values["uri"] = uploads.get(option.upload) or values["uri"]
            values["format"] = values["format"] or format_of(values["uri"] or "")
        values = {name: value for name, value in values.items() if value not in (None, "")}
        told = any(value is not True and value is not False for value in values.values())
        return {"kind": option.value, **values} if told or self.declared.required else None

    def field_at_fault(self, path: str, cleaned: Cleaned) -> str | None:
        head, _, rest = path.partition(".")
        option = self.find_option(cleaned)
        if path == "sql" and option.value == QuerySource.kind:  # its text is a statement
            return option.names[0]
        if head != self.declared.name:
            return None
        return next((part.name for part in option.parts if part.declared.name == rest), None) or (
            option.names[0] if option.names else self.selector
        )

    def find_option(self, cleaned: Cleaned) -> Option:
        value = cleaned.get(self.selector) or self.options[0].value
        return next(option for option in self.options if option.value == value)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A list of values of one model, a fieldset each; those left blank do not count."""

    shape: ClassVar[str] = "repeat"
    declared: Parameter
    items: tuple[tuple[SingleField, ...], ...]

    def fields(self) -> Iterator[tuple[str, forms.Field]]:
        for item in self.items:
            for part in item:
                for name, field in part.fields():
                    field.required = False
                    yield name, _add_blank_choice(field)

    def read(self, cleaned: Cleaned, uploads: Mapping[str, str]) -> Any:  # noqa: ANN401
        values = [
            {part.declared.name: part.read(cleaned, uploads) for part in item}
            for item in self.items
        ]
        filled = (
            {name: value for name, value in item_values.items() if value not in (None, "", False)}
            for item_values in values
        )
        return [item_values for item_values in filled if item_values]

    def field_at_fault(self, path: str, cleaned: Cleaned) -> str | None:  # noqa: ARG002
        if path.partition(".")[0] != self.declared.name:
            return None
        numbers = [part for part in path.split(".") if part.isdecimal()]
        place = int(numbers[0]) if numbers and int(numbers[0]) < len(self.items) else 0
        item = self.items[place]
        last = path.rpartition(".")[2]
        return next((part.name for part in item if part.declared.name == last), item[0].name)


Part = SingleField | Choice | Repeat


@dataclass(frozen=True, slots=True)
class DrawnPart:
    """A part with its bound fields, as templates draw it: one field, options, or items."""

    shape: str
    label: str
    help: str
    name: str
    field: forms.BoundField | None = None
    selector: forms.BoundField | None = None
    options: tuple[tuple[Any, bool, list[forms.BoundField]], ...] = ()
    items: tuple[list[forms.BoundField], ...] = ()


class CommandForm(forms.Form):
    """Fields of one kind of command; `parameters` returns `Command.from_parameters`' input."""

    def __init__(
        self,
        kind: str,
        data: Mapping[str, Any] | None = None,
        files: "MultiValueDict[str, UploadedFile[Any]] | None" = None,
        initial: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(data, files, initial=initial)
        model = COMMANDS[kind]
        self.kind = kind
        self.parts: tuple[Part, ...] = tuple(
            part_of(model, declared, _repeats(declared.name, data or {}))
            for declared in model.list_parameters()
            if declared.name not in _LEFT_OUT
        )
        for part in self.parts:
            self.fields.update(part.fields())
        for name, field in self.fields.items():
            field.widget.attrs.setdefault("id", f"id_{name}")
            if field.help_text:
                field.widget.attrs["aria-describedby"] = f"id_{name}_hint"

    def parameters(self, uploads: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the parameters of filled fields; call it after `is_valid`.

        Raises:
            EngineError: a text is invalid SQL; `field` names the parameter.
        """
        values = {}
        for part in self.parts:
            try:
                values[part.declared.name] = part.read(self.cleaned_data, uploads or {})
            except EngineError as error:
                error.field = part.declared.name  # type: ignore[attr-defined]
                raise
        return {name: value for name, value in values.items() if value is not None}

    def iter_uploads(self) -> Iterator[tuple[str, "UploadedFile[Any]"]]:
        """Iterate over the form's files, by field, without those of kinds not chosen."""
        for part in self.parts:
            if isinstance(part, Choice):
                name = part.find_option(self.cleaned_data).upload
                if name and self.cleaned_data.get(name):
                    yield name, self.cleaned_data[name]

    def blame(self, error: EngineError) -> None:
        """Show an engine's error at the field that it names."""
        path = str(getattr(error, "field", ""))
        cleaned = getattr(self, "cleaned_data", {})
        at_fault = (part.field_at_fault(path, cleaned) for part in self.parts)
        field = next((name for name in at_fault if name in self.fields), None)
        self.add_error(field, str(error))
        for name in self.errors:
            if name in self.fields:
                self.fields[name].widget.attrs["aria-invalid"] = "true"

    def reopen(self) -> None:
        """Reopen the form: typed text stays, and nothing is marked as an error yet."""
        ticked = {
            name: name in self.data
            for name, field in self.fields.items()
            if isinstance(field, forms.BooleanField)
        }
        self.initial = {name: self.data[name] for name in self.data} | ticked
        self.is_bound = False

    def draw_parts(self) -> list[DrawnPart]:
        """Return its parts in order, to be drawn."""
        return [self._draw_part(part) for part in self.parts]

    def _draw_part(self, part: Part) -> DrawnPart:
        declared = part.declared
        shown = DrawnPart(part.shape, declared.label, declared.help, declared.name)
        if isinstance(part, Choice):
            chosen = self[part.selector].value() or part.options[0].value
            options = (
                (option, option.value == chosen, [self[name] for name in option.names])
                for option in part.options
            )
            return replace(shown, selector=self[part.selector], options=tuple(options))
        if isinstance(part, Repeat):
            items = ([self[field.name] for field in item] for item in part.items)
            return replace(shown, items=tuple(items))
        return replace(shown, field=self[declared.name])


def initial_of(kind: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the initial values in an address."""
    names = {p.name for p in COMMANDS[kind].list_parameters()}
    return {name: value for name, value in query.items() if name in names}


def form_of(command: Command) -> CommandForm | None:
    """Return a command's form, filled in; None if its fields cannot express it."""
    form, given = CommandForm(command.kind), command.parameters()
    for part in form.parts:
        value = given.get(part.declared.name)
        if value is None:
            continue
        if not isinstance(part, SingleField) or (text := text_of(part.declared, value)) is None:
            return None
        form.initial[part.name] = text
    return form


def _repeats(name: str, data: Mapping[str, Any]) -> int:
    """Return how many of a repeated parameter were sent, plus one if a button requested it."""
    head = f"{name}."
    numbers = (key[len(head) :].partition(".")[0] for key in data if key.startswith(head))
    sent = max((int(n) + 1 for n in numbers if n.isdecimal() and len(n) < 3), default=0)
    return sent + (data.get(MORE) == name)


def part_of(model: type, declared: Parameter, repeats: int) -> Part:
    """Return the part of a form for one parameter; a repeated one has `repeats`."""
    if declared.kind == "source":
        return Choice(declared, tuple(_options(declared.name)))
    item = _item_of(model, declared.name)
    if item is None:
        return SingleField(declared, declared.name)
    count = min(max(repeats, 1), MAX_REPEATS)
    return Repeat(
        declared,
        tuple(
            tuple(
                SingleField(parameter, f"{declared.name}.{n}.{parameter.name}")
                for parameter in parameters_of(item)
            )
            for n in range(count)
        ),
    )


def _item_of(model: type, name: str) -> type | None:
    """Return the model of a list's items, if it only has declared parameters."""
    arguments = get_args(get_type_hints(model).get(name))
    item = arguments[0] if arguments else None
    if not (isinstance(item, type) and is_dataclass(item)) or hasattr(item, "from_parameters"):
        return None
    return item if parameters_of(item) else None


def _options(name: str) -> Iterator[Option]:
    for kind, model in SOURCES.items():
        parts = (parameter for parameter in parameters_of(model) if parameter.name not in _HIDDEN)
        yield Option(
            kind,
            kind.replace("_", " ").capitalize(),
            (model.__doc__ or "").partition("\n")[0],
            tuple(SingleField(part, f"{name}.{kind}.{part.name}") for part in parts),
            f"{name}.{kind}.file" if model is FileSource else "",
        )


def _upload_field() -> forms.Field:
    return forms.FileField(
        label="File to upload",
        required=False,
        help_text="CSV, JSON, Parquet or ORC. The server keeps the file until the job has run.",
        widget=forms.FileInput(attrs={"accept": _FORMATS}),
    )


def _add_blank_choice(field: forms.Field) -> forms.Field:
    """Add a blank choice, unless a choice is preset."""
    if isinstance(field, forms.ChoiceField) and not field.initial:
        field.choices = [("", "–"), *field.choices]  # type: ignore[misc]
    return field


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
    "mapping": _FieldFactory(rows=3, hint="One name = value on each line.", read=_pairs, write=_lines),
    "schema": _FieldFactory(rows=4, hint="As Delta's schema JSON.", read=_json, write=json.dumps),
    "rows": _FieldFactory(rows=4, hint="One row on each line, with values separated by commas: 1, 'open', DATE '2026-11-20'.", read=_rows, write=_nothing),
    "steps": _FieldFactory(rows=6, hint="SQL statements separated by semicolons.", read=_steps, write=_nothing),
    "columns": _FieldFactory(hint="Commas between.", read=_split_list, write=", ".join),
    "expressions": _FieldFactory(hint="Commas between.", read=_split_list, write=", ".join),
    "assignments": _FieldFactory(rows=3, hint="One name = value on each line.", read=_pairs, write=_lines),
    "texts": _FieldFactory(hint="Commas between.", read=_split_list, write=", ".join),
}  # fmt: skip
