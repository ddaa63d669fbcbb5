"""One line of the log ↔ one action (protocol: Actions).

Decoding tolerates deviations of real logs: nulls count as absent fields, unknown fields are skipped
(those of `commitInfo` are kept in `.extra`), and so are unknown actions next to a known one. Any
other violation of the protocol is refused.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import msgspec

from engine.actions.commit_info import CheckpointMetadata, CommitInfo, Sidecar, UnknownAction
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.errors import MalformedLogError

Action: TypeAlias = (
    AddFile
    | RemoveFile
    | AddCDCFile
    | Metadata
    | Protocol
    | SetTransaction
    | DomainMetadata
    | CommitInfo
    | CheckpointMetadata
    | Sidecar
    | UnknownAction
)

MAX_LINE_BYTES = 64 * 1024 * 1024

_NAMES: dict[type[Any], str] = {
    AddFile: "add",
    RemoveFile: "remove",
    AddCDCFile: "cdc",
    Metadata: "metaData",
    Protocol: "protocol",
    SetTransaction: "txn",
    DomainMetadata: "domainMetadata",
    CommitInfo: "commitInfo",
    CheckpointMetadata: "checkpointMetadata",
    Sidecar: "sidecar",
}
_DECODERS = {name: msgspec.json.Decoder(kind) for kind, name in _NAMES.items()}
_KINDS = {name: kind for kind, name in _NAMES.items()}
_ENVELOPE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_COMMIT_INFO_TYPES = {field.name: field.type for field in msgspec.structs.fields(CommitInfo)}
_COMMIT_INFO_FIELDS = {
    field.encode_name: field.name
    for field in msgspec.structs.fields(CommitInfo)
    if field.name not in {"extra", "version"}
}


class _AddLine(msgspec.Struct, forbid_unknown_fields=True):
    add: AddFile


class _RemoveLine(msgspec.Struct, forbid_unknown_fields=True):
    remove: RemoveFile


_FILE_LINES: dict[str | bytes, msgspec.json.Decoder[_AddLine | _RemoveLine]] = {
    **dict.fromkeys((b'{"add":', '{"add":'), msgspec.json.Decoder(_AddLine)),
    **dict.fromkeys((b'{"remov', '{"remov'), msgspec.json.Decoder(_RemoveLine)),
}
"""Decoders of the most common lines of large commits, by their first seven bytes."""
_NOTHING = (b"", b"{}")
_TEXT_MAPS = ("configuration", "partitionValues")
"""Maps of texts, in which some writers store plain numbers and booleans."""
_REMEDY = "Repair the log with the engine that wrote it."


def decode(line: str | bytes) -> Action:
    """Decode the action of one line.

    Raises:
        MalformedLogError: not one JSON object, no action, several known actions, a required field
            absent, a value of the wrong type.
    """
    if len(line) > MAX_LINE_BYTES:
        msg = f"A line of the log has {len(line)} bytes. The limit is {MAX_LINE_BYTES} bytes."
        raise MalformedLogError(msg, _REMEDY)
    try:
        return _decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError) as error:
        msg = f"A line of the log is not an action: {error} in {_quote_line(line)}."
        raise MalformedLogError(msg, _REMEDY) from error


def decode_lines(data: bytes) -> Iterator[Action]:
    """Yield the actions of a commit's bytes, skipping empty lines and empty objects.

    Raises:
        MalformedLogError: as in `decode`.
    """
    return (decode(line) for line in data.split(b"\n") if holds_action(line))


def holds_action(line: bytes) -> bool:
    """Return whether a line of the log is more than whitespace or an empty object."""
    return line.strip() not in _NOTHING


def encode(action: Action) -> str:
    """Encode the action as one line without newline. Required fields are always written."""
    if isinstance(action, UnknownAction):
        return f"{{{msgspec.json.encode(action.name).decode()}:{action.json}}}"
    return msgspec.json.encode({_NAMES[type(action)]: _body(action)}).decode()


def _decode(line: str | bytes) -> Action:
    decoder = _FILE_LINES.get(line[:7])
    if decoder is None:
        return _decode_any(line)
    try:
        file_line = decoder.decode(line)
    except msgspec.ValidationError:
        return _decode_any(line)
    return file_line.add if isinstance(file_line, _AddLine) else file_line.remove


def _decode_any(line: str | bytes) -> Action:
    present = [(name, raw) for name, raw in _ENVELOPE.decode(line).items() if bytes(raw) != b"null"]
    recognized = [(name, raw) for name, raw in present if name in _DECODERS]
    if len(recognized) > 1 or not present:
        names = ", ".join(name for name, _ in recognized) or "none"
        msg = f"one action expected, found {names}"
        raise ValueError(msg)
    name, raw = (recognized or present)[0]
    decoder = _DECODERS.get(name)
    if decoder is None:
        return UnknownAction(name=name, json=bytes(raw).decode())
    try:
        action = decoder.decode(raw)
    except msgspec.ValidationError:
        fields = msgspec.json.decode(raw)
        return _commit_info(fields) if name == "commitInfo" else _leniently(fields, _KINDS[name])
    if isinstance(action, CommitInfo):
        return _keep_unknown_fields(action, raw)
    return cast("Action", action)


def _leniently(fields: object, kind: type[Any]) -> Action:
    """Convert fields, with top-level nulls as absent and values of maps as text."""
    if isinstance(fields, dict):
        if kind is DomainMetadata and "removed" in fields and fields["removed"] is None:
            fields["removed"] = False
        fields = {name: value for name, value in fields.items() if value is not None}
        for name in fields.keys() & _TEXT_MAPS:
            fields[name] = _render_map_values(fields[name])
        if kind is Metadata and isinstance(texts := fields.get("configuration"), dict):
            fields["configuration"] = {k: text for k, text in texts.items() if text is not None}
    return cast("Action", msgspec.convert(fields, kind))


def _render_map_values(values: object) -> object:
    """Render the numbers and booleans of a map as JSON text."""
    if not isinstance(values, dict):
        return values
    return {
        name: msgspec.json.encode(value).decode()
        if isinstance(value, bool | int | float)
        else value
        for name, value in values.items()
    }


def _keep_unknown_fields(action: CommitInfo, raw: msgspec.Raw) -> CommitInfo:
    """Keep the unknown fields of a commitInfo in `extra`; `version` is set by the reader."""
    if _ENVELOPE.decode(raw).keys() <= _COMMIT_INFO_FIELDS.keys():
        return action
    fields: dict[str, Any] = msgspec.json.decode(raw)
    extra = {name: value for name, value in fields.items() if name not in _COMMIT_INFO_FIELDS}
    return msgspec.structs.replace(action, version=None, extra=extra)


def _commit_info(fields: object) -> CommitInfo:
    """Convert any JSON to a commitInfo, keeping unknown and mistyped fields in `extra`."""
    if not isinstance(fields, dict):
        return CommitInfo(extra={"value": fields})
    values: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in fields.items():
        attribute = _COMMIT_INFO_FIELDS.get(name)
        if attribute is None or not _fits(value, attribute):
            extra[name] = value
        elif value is not None:
            values[attribute] = value
    return CommitInfo(**values, extra=extra)


def _fits(value: object, attribute: str) -> bool:
    try:
        msgspec.convert(value, _COMMIT_INFO_TYPES[attribute])
    except msgspec.ValidationError:
        return False
    return True


def _body(action: msgspec.Struct) -> object:
    if isinstance(action, AddFile | RemoveFile):
        return action
    body = msgspec.to_builtins(action)
    if isinstance(action, AddCDCFile):
        return {**body, "dataChange": False}
    if isinstance(action, Metadata):
        required = {
            "partitionColumns": action.partition_columns,
            "configuration": action.configuration,
        }
        file_format = {"provider": action.format.provider, "options": action.format.options}
        return {"id": action.id, "format": file_format, **required, **body}
    if isinstance(action, CommitInfo):
        body.pop("version", None)
        body.pop("extra", None)
        return {**action.extra, **body}
    return body


def _quote_line(line: str | bytes) -> str:
    head = line[:120]
    text = head.decode(errors="replace") if isinstance(head, bytes) else head
    return repr(text + ("…" if len(line) > 120 else ""))
