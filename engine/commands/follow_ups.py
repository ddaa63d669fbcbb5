"""Options of a write for the time after its commit: compaction, overriding the table's setting."""

from typing import Any

from engine.commands.fields import parameter

OPTION = "autoCompact"
AS_TABLE, ON, OFF = "as_table", "on", "off"
_SAID = {"true": ON, "on": ON, "false": OFF, "off": OFF}


def compaction_choice() -> Any:  # noqa: ANN401 - a dataclass field
    """Declare the compaction field of a writing command."""
    return parameter(
        "Compact afterwards",
        "choice",
        choices=(AS_TABLE, ON, OFF),
        default=AS_TABLE,
        help="Join small files in a commit of its own after this one; as_table follows "
        "delta.autoOptimize.autoCompact.",
    )


def choice_option(choice: str) -> str:
    """Return the choice as an option's value in a statement, "" for the table's setting."""
    return "" if choice == AS_TABLE else {ON: "true", OFF: "false"}[choice]


def choice_of(text: str | None) -> str | None:
    """Parse an option's value as a choice; a missing one is the table's. None if invalid."""
    return AS_TABLE if text is None else _SAID.get(text.lower())
