"""A form for each command, generated from its declared parameters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.datastructures import MultiValueDict

from engine.commands.model import COMMANDS, Command
from engine.errors import EngineError
from lakeui.pages.jobs.form_parts import Choice, Part, Repeat, SingleField, part_of
from lakeui.pages.jobs.parameter_fields import text_of

_LEFT_OUT = frozenset({"table", "alias"})
MORE = "more"
"""Of a button: the repeated parameter to show one more of."""


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
