"""The parts of a generated form: single fields, a choice of sources, repeated clauses.

A part knows the names of its fields, how to read them together, and which field an engine's error
is about. Templates draw a part by its `shape`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, ClassVar, get_args, get_type_hints

from django import forms

from engine.commands.model import SOURCES, FileSource, Parameter, QuerySource, parameters_of
from lakeui.jobs.uploads import format_of
from lakeui.pages.jobs.parameter_fields import field_of, value_of

MAX_REPEATS = 20
_HIDDEN = frozenset({"alias"})
_FORMATS = ".csv,.json,.jsonl,.parquet,.orc"
Cleaned = Mapping[str, Any]


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
        help_text="CSV, JSON, Parquet or ORC. It is kept on the server until the job has run.",
        widget=forms.FileInput(attrs={"accept": _FORMATS}),
    )


def _add_blank_choice(field: forms.Field) -> forms.Field:
    """Add a blank choice, unless a choice is preset."""
    if isinstance(field, forms.ChoiceField) and not field.initial:
        field.choices = [("", "–"), *field.choices]  # type: ignore[misc]
    return field
