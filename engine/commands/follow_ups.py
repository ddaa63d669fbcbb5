"""What a write may ask for after its commit: that small files are joined, whatever the table says."""

from typing import Any

from engine.commands.fields import parameter

OPTION = "autoCompact"
AS_TABLE, ON, OFF = "as_table", "on", "off"
_SAID = {"true": ON, "on": ON, "false": OFF, "off": OFF}


def compaction_choice() -> Any:  # noqa: ANN401 - a dataclass field
    """The field of a command that writes rows."""
    return parameter(
        "Compact afterwards",
        "choice",
        choices=(AS_TABLE, ON, OFF),
        default=AS_TABLE,
        help="Join small files in a commit of its own after this one; as_table follows "
        "delta.autoOptimize.autoCompact.",
    )


def choice_option(choice: str) -> str:
    """The choice as the value of a statement's option, "" where it is the table's."""
    return "" if choice == AS_TABLE else {ON: "true", OFF: "false"}[choice]


def choice_of(text: str | None) -> str | None:
    """The choice that an option's value says, the table's where it says none; None: it is no value."""
    return AS_TABLE if text is None else _SAID.get(text.lower())
