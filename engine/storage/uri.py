"""Locations of tables, and resolution of paths in a log.

A path in a log is untrusted. It is a URI reference: decoded exactly once, then either below the
table's root or refused, unless an administrator allowed its root (shallow clones).
"""

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import (
    MalformedLogError,
    PathOutsideRootError,
    RequestError,
    UnsupportedSchemeError,
)
from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from engine.storage.object_store import OBJECT_SCHEMES, ObjectStore, open_object_store

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*):(?=/)")
_PLAIN_TEXT = r"[^./%:\x00][^/%:\x00]*(?:/[^./%:\x00][^/%:\x00]*)*"
_PLAIN = re.compile(_PLAIN_TEXT)
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "az", "abfss": "az", "azure": "az"}


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A file: the root it lies below, and its decoded path there."""

    root: str
    path: str
    inside: bool  # below the table itself, not below another allowed root


def open_store(uri: str, storage_options: Mapping[str, str] | None = None) -> Store:
    """Open the store of a table.

    Raises:
        UnsupportedSchemeError: no store serves the URI's scheme.
    """
    root = normalize_uri(uri)
    scheme = root.partition("://")[0] if "://" in root else ""
    if not scheme:
        return LocalStore(root)
    if scheme == "memory":
        return MemoryStore(root)
    return open_object_store(root, storage_options or {})


def open_beside(store: Store, root: str) -> Store:
    """Open the store of an allowed root, with the table's options if both have one provider.

    Raises:
        UnsupportedSchemeError: no store serves the root's scheme.
    """
    same = normalize_uri(root).partition("://")[0] == store.root.partition("://")[0]
    return open_store(
        root, store.storage_options if same and isinstance(store, ObjectStore) else {}
    )


def normalize_uri(uri: str) -> str:
    """Normalize a URI: an absolute path for local files, else `scheme://authority/path`.

    Raises:
        UnsupportedSchemeError: no store here serves the URI's scheme.
        RequestError: it names no place.
    """
    text = str(uri)
    match = _SCHEME.match(text)
    if not text.strip() or "\0" in text:
        raise _no_place(text)
    if match is None:
        return _normal_absolute(str(_expand_path(text)))
    scheme = match[1].lower()
    scheme = _ALIASES.get(scheme, scheme)
    rest = text[match.end() :]
    if scheme == "file":
        return _normal_absolute(unquote(_strip_authority(rest)))
    if scheme != "memory" and scheme not in OBJECT_SCHEMES:
        msg = f"Tables cannot be stored at {match[1]}://."
        raise UnsupportedSchemeError(msg, "Use a path, file://, s3://, gs://, az:// or memory://.")
    authority, _, path = rest.lstrip("/").partition("/")
    if not authority:
        raise _no_place(text)
    return f"{scheme}://{authority}{_normal_absolute('/' + path)}".rstrip("/")


def real_place(uri: str) -> str:
    """Return a location's canonical name; on a local disk symbolic links are resolved."""
    root = normalize_uri(uri)
    return root if "://" in root else os.path.realpath(root)


def is_same_place(uri: str, other: str) -> bool:
    """Return whether two URIs lead to the same place, even under different names.

    Raises:
        RequestError: undecidable: only one names the account of an Azure container.
    """
    if uri == other:
        return True
    one, two = real_place(uri), real_place(other)
    (container, account), (another, owner) = _azure_account(one), _azure_account(two)
    if one == two or container is None or container != another:
        return one == two or _is_same_directory(one, two)
    if not (account and owner):
        msg = f"{one} and {two} may be the same table: only one of the names has the account."
        raise RequestError(msg, "Use the account in both names, or in neither.")
    return account == owner


def _is_same_directory(one: str, two: str) -> bool:
    """Return whether two paths are one directory, as on disks mounted twice or ignoring case."""
    if "://" in one or "://" in two:
        return False
    try:
        return Path(one).samefile(two)
    except OSError:  # one does not exist
        return False


def _azure_account(place: str) -> tuple[str | None, str]:
    """Split an Azure location into path and account; None for other locations."""
    scheme, _, rest = place.partition("://")
    if scheme != "az":
        return None, ""
    authority, _, path = rest.partition("/")
    container, _, host = authority.partition("@")
    return f"{container}/{path}", host.partition(".")[0]


def _expand_path(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except (RuntimeError, OSError) as error:
        raise _no_place(text) from error


def _no_place(text: str) -> RequestError:
    msg = f"{text[:200]!r} is not a valid table location."
    return RequestError(msg, "Use a path or a URL.", field="uri")


def local_path(uri: str) -> Path | None:
    """Return the directory of a local table, None for a remote one."""
    root = normalize_uri(uri)
    return None if "://" in root else Path(root)


def resolve_log_path(
    root: str, path_in_log: str, allowed_roots: Sequence[str] = ()
) -> ResolvedPath:
    """Resolve a path of the log.

    `root` is normalized, `path_in_log` percent-encoded: relative to the root, absolute, or a URL.
    `allowed_roots` are other readable locations.

    Raises:
        PathOutsideRootError: it leads out of the table and of every allowed root.
        MalformedLogError: it is not a path.
    """
    if is_plain_path(path_in_log):
        return ResolvedPath(root, path_in_log, inside=True)
    target = _absolute(root, path_in_log)
    below = _relative_path(root, target)
    if below is not None:
        return ResolvedPath(root, below, inside=True)
    for allowed in map(normalize_uri, allowed_roots):
        below = _relative_path(allowed, target)
        if below is not None:
            return ResolvedPath(allowed, below, inside=False)
    linked = _relative_real_path(root, target)
    if linked is not None:
        return ResolvedPath(root, linked, inside=True)
    msg = f"The log of {root} names a file outside the table: {path_in_log[:500]!r}."
    raise PathOutsideRootError(msg, "Ask an administrator to add its location to TABLE_ROOTS.")


def is_plain_path(path_in_log: str) -> bool:
    """Return whether a log path is literally the file's path below the root, as most are."""
    return _PLAIN.fullmatch(path_in_log) is not None


def are_plain_paths(paths_in_log: pa.ChunkedArray) -> pa.ChunkedArray:
    """Apply `is_plain_path` to each path."""
    return pc.match_substring_regex(paths_in_log, f"^(?:{_PLAIN_TEXT})$")


def _absolute(root: str, path_in_log: str) -> str:
    match = _SCHEME.match(path_in_log)
    text = _decode_once(path_in_log if match is None else path_in_log[match.end() :])
    if match is None:
        prefix, base = _split(root)
        return prefix + _normal_absolute(text if text.startswith("/") else f"{base}/{text}")
    scheme = match[1].lower()
    scheme = _ALIASES.get(scheme, scheme)
    if scheme == "file":
        return _normal_absolute(_strip_authority(text))
    authority, _, path = text.lstrip("/").partition("/")
    return f"{scheme}://{authority}" + _normal_absolute("/" + path)


def _decode_once(text: str) -> str:
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        msg = f"The path {text[:500]!r} in the log is not UTF-8."
        raise MalformedLogError(msg, "Repair the log with the engine that wrote it.") from error
    if not decoded or "\0" in decoded:
        msg = f"{text[:500]!r} in the log is not a path."
        raise MalformedLogError(msg, "Repair the log with the engine that wrote it.")
    return decoded


def _split(root: str) -> tuple[str, str]:
    """Split a root into scheme with authority, and path."""
    if "://" not in root:
        return "", root
    scheme, _, rest = root.partition("://")
    authority, _, path = rest.partition("/")
    return f"{scheme}://{authority}", f"/{path}" if path else ""


def _relative_path(root: str, target: str) -> str | None:
    inside = root.rstrip("/") + "/"
    return (
        target[len(inside) :] if target.startswith(inside) and len(target) > len(inside) else None
    )


def _relative_real_path(root: str, target: str) -> str | None:
    """Return the path below a local root if symbolic links lead there, else None."""
    if "://" in root or "://" in target:
        return None
    return _relative_path(os.path.realpath(root), os.path.realpath(target))


def _strip_authority(path: str) -> str:
    """Strip an empty or local authority from a path: `///a`, `//localhost/a` and `/a` are `/a`."""
    if not path.startswith("//") or path.startswith("///"):
        return path
    host, _, rest = path[2:].partition("/")
    if host in ("", "localhost"):
        return f"/{rest}"
    msg = f"file://{host}/ is on another machine."
    raise PathOutsideRootError(msg, "Use file:/// and a path on this machine.")


def _normal_absolute(path: str) -> str:
    return "/" + posixpath.normpath("/" + path).lstrip("/")
