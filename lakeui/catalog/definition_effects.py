"""What a change of a table's definition means for the programs that read and write it."""

from collections.abc import Iterator, Sequence

from lakeui.catalog.definitions import Section

_PROPERTIES = {
    "delta.isolationLevel": "Writers judge conflicts by another isolation level from then on.",
    "delta.enableDeletionVectors": "Writers may mark rows deleted beside the files, or stop to: "
    "marks that are there stay until files are rewritten.",
    "delta.enableRowTracking": "Rows keep an id for life from then on, or stop to.",
    "delta.enableChangeDataFeed": "Change rows of later versions are kept, or no longer.",
    "delta.appendOnly": "DELETE, UPDATE and MERGE are refused from then on, or allowed again.",
    "delta.columnMapping.mode": "Columns have names of their own in the files: readers without "
    "column mapping refuse the table.",
    "delta.deletedFileRetentionDuration": "VACUUM keeps removed files for another span: how far "
    "back versions can be read changes with it.",
    "delta.logRetentionDuration": "Log entries are kept for another span: how far back the "
    "history goes changes with it.",
}


def effects_of_sections(
    sections: Sequence[Section], metadata_versions: Sequence[int]
) -> Iterator[str]:
    """In sentences, the gravest first."""
    by_name = {each.name: each for each in sections}
    if "Protocol" in by_name:
        yield from _of_protocol(by_name["Protocol"])
    if "Schema" in by_name:
        yield from _of_schema(by_name["Schema"])
    if "Layout" in by_name and by_name["Layout"].changed:
        yield "The partitioning changed: every file was rewritten into other directories."
    if "Properties" in by_name:
        yield from _of_properties(by_name["Properties"])
    if metadata_versions:
        yield _of_metadata(metadata_versions)


def _of_protocol(section: Section) -> Iterator[str]:
    came = [line.text for line in section.lines if line.sign == "+"]
    gone = [line.text for line in section.lines if line.sign == "-"]
    for_readers = [t.removesuffix(" (readers too)") for t in came if t.endswith("(readers too)")]
    for_writers = [t for t in came if " version " not in t and not t.endswith("(readers too)")]
    if for_readers:
        yield f"Clients that do not know {', '.join(for_readers)} can no longer read the table."
    if for_writers:
        yield f"Clients that do not know {', '.join(for_writers)} can no longer write it."
    dropped = [t.removesuffix(" (readers too)") for t in gone if " version " not in t]
    if dropped:
        yield f"{', '.join(dropped)} is no longer asked of clients."


def _of_schema(section: Section) -> Iterator[str]:
    came, gone = _columns(section, "+"), _columns(section, "-")
    added, dropped = [n for n in came if n not in gone], [n for n in gone if n not in came]
    altered = [n for n in came if n in gone]
    if added:
        yield f"Rows written before hold null in {', '.join(added)}, or the column's default."
    if dropped:
        yield f"Queries that name {', '.join(dropped)} fail from then on."
    if altered:
        yield f"{', '.join(altered)} changed its type or nullability: see the lines above."


def _of_properties(section: Section) -> Iterator[str]:
    changed = {line.text.partition(" = ")[0] for line in section.lines if line.sign != " "}
    for name, effect in _PROPERTIES.items():
        if name in changed:
            yield effect
    if any(name.startswith("delta.constraints.") for name in changed):
        yield "Writers check other conditions: a write that breaks one fails."


def _of_metadata(versions: Sequence[int]) -> str:
    named = ", ".join(f"v{version}" for version in versions[:5])
    more = f" and {len(versions) - 5} more" if len(versions) > 5 else ""
    return (
        f"Writes that were open across {named}{more} lost: metadata changed under them. "
        "Streaming readers may stop there."
    )


def _columns(section: Section, sign: str) -> list[str]:
    """Names of the columns, nested ones too, whose line came or went."""
    lines = (line.text.strip() for line in section.lines if line.sign == sign)
    return [text.partition(" ")[0] for text in lines]
