"""The options of the data source `lake`, under delta-spark's names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.errors import IllegalOptionError, PathOutsideRootError, RequestError
from engine.snapshot.stream_log import StreamLimits
from engine.storage.uri import normalize_uri

STORAGE_PREFIX = "storage."
DEFAULT_MAX_FILES = 1000
LATEST = "latest"
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,15})\s*([bkmgt]?)b?", re.IGNORECASE)
_REFUSED = {
    "replacewhere": "Use the engine's overwrite command with replace_where.",
    "partitionoverwritemode": "Use the engine's overwrite command with dynamic_partitions.",
    "overwriteschema": "Use the engine's overwrite command with overwrite_schema.",
    "mergeschema": "Use the engine's append command with merge_schema, or ALTER TABLE first.",
}
"""Options of delta-spark that are refused because ignoring them would be dangerous."""


@dataclass(frozen=True)
class SourcePlace:
    """Permitted table locations and store options, set when the source is registered.

    Attributes:
        storage_options: of the object store.
        allowed_roots: locations outside a table to which its log may refer (shallow clones).
        table_roots: the only locations for tables; empty allows any.
    """

    storage_options: Mapping[str, str] = field(default_factory=dict)
    allowed_roots: tuple[str, ...] = ()
    table_roots: tuple[str, ...] = ()


@dataclass(frozen=True)
class LakeOptions:
    """The options, checked."""

    uri: str
    storage_options: Mapping[str, str]
    version: int | None = None
    timestamp: str | None = None
    starting_version: int | str | None = None
    starting_timestamp: str | None = None
    limits: StreamLimits = field(default_factory=StreamLimits)
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    accept_schema_version: int = -1
    query_id: str = ""
    read_version: int | None = None
    change_feed: bool = False

    @classmethod
    def parse(cls, given: Mapping[str, str], place: SourcePlace) -> "LakeOptions":
        """Parse the options from Spark, whose names come in any case.

        Raises:
            RequestError: an option is missing, refused or invalid.
            PathOutsideRootError: the table is outside the permitted locations.
        """
        options = {str(key).lower(): str(value) for key, value in given.items()}
        for name, remedy in _REFUSED.items():
            if options.get(name, "false").lower() not in {"false", "static"}:
                msg = f"The data source lake has no option {name}."
                raise RequestError(msg, remedy, field=name)
        _check_exclusive(options, ("versionasof", "timestampasof"))
        _check_exclusive(options, ("startingversion", "startingtimestamp"))
        return cls(
            uri=_table_uri(options.get("path", ""), place.table_roots),
            storage_options={**place.storage_options, **_storage(options)},
            version=_integer(options, "versionasof"),
            timestamp=options.get("timestampasof"),
            starting_version=_parse_starting_version(options),
            starting_timestamp=options.get("startingtimestamp"),
            limits=_limits(options),
            ignore_deletes=_flag(options, "ignoredeletes"),
            ignore_changes=_flag(options, "ignorechanges"),
            skip_change_commits=_flag(options, "skipchangecommits"),
            accept_schema_version=_integer(options, "acceptschemaversion", -1) or 0,
            query_id=options.get("queryid", ""),
            read_version=_integer(options, "readversion"),
            change_feed=_flag(options, "readchangefeed") or _flag(options, "readchangedata"),
        )


def _table_uri(path: str, roots: Iterable[str]) -> str:
    if not path:
        msg = (
            "The data source has no path to the table. Spark passes no path to a Python data source"
            " when a table of its catalog is read by name."
        )
        remedy = (
            "Call engine.delta.enable(spark) once in the session, pass the path to load(…) "
            "or start(…), or use engine.delta.DeltaTable.forName(spark, name).toDF()."
        )
        raise RequestError(msg, remedy, field="path")
    uri = normalize_uri(path)
    if uri.startswith("memory://"):
        msg = f"{uri} is in the memory of another process, which Spark's workers cannot read."
        raise RequestError(msg, "Use a table on disk or in an object store.", field="path")
    allowed = [normalize_uri(root) for root in roots]
    if allowed and not any(
        uri == root or uri.startswith(f"{root.rstrip('/')}/") for root in allowed
    ):
        msg = f"{uri} is outside the directories that tables may be in."
        raise PathOutsideRootError(msg, "Ask an administrator to add the location to TABLE_ROOTS.")
    return uri


def _storage(options: Mapping[str, str]) -> dict[str, str]:
    names = [key for key in options if key.startswith(STORAGE_PREFIX)]
    return {key.removeprefix(STORAGE_PREFIX): options[key] for key in names}


def _check_exclusive(options: Mapping[str, str], names: tuple[str, str]) -> None:
    if all(name in options for name in names):
        msg = f"{names[0]} and {names[1]} cannot both be given."
        raise RequestError(msg, "Remove one of them.", field=names[1])


def _parse_starting_version(options: Mapping[str, str]) -> int | str | None:
    if options.get("startingversion", "").lower() == LATEST:
        return LATEST
    return _integer(options, "startingversion")


def _limits(options: Mapping[str, str]) -> StreamLimits:
    max_bytes = _size(options, "maxbytespertrigger")
    default = DEFAULT_MAX_FILES if max_bytes is None else None
    max_files = _integer(options, "maxfilespertrigger", default)
    for name, value in (("maxfilespertrigger", max_files), ("maxbytespertrigger", max_bytes)):
        if value == 0:
            msg = f"{name} is 0, so no batch could contain a file."
            raise IllegalOptionError(msg, "Use at least 1.", field=name)
    return StreamLimits(max_files, max_bytes)


def _integer(options: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    text = options.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        msg = f"{name} is {text[:60]!r}, not a whole number."
        raise IllegalOptionError(msg, "Give 0 or more.", field=name)
    return int(text)


def _size(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name, "").strip()
    if not text:
        return None
    size = size_in_bytes(text)
    if size is None:
        msg = f"{name} is {text[:60]!r}, not a size."
        raise IllegalOptionError(
            msg, "Use a number of bytes, or a number with k, m or g.", field=name
        )
    return size


def size_in_bytes(text: str) -> int | None:
    """Parse a size in Spark's notation, such as 64m; None if it is invalid."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(match[1]) * _UNITS[match[2].lower()]


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").strip().lower()
    if text not in {"true", "false"}:
        msg = f"{name} is {text[:60]!r}."
        raise IllegalOptionError(msg, "Use true or false.", field=name)
    return text == "true"
