"""Permitted locations of tables and sources: only below the roots that an administrator set.

Local paths are compared by their real path, so that neither `..` nor a symbolic link leads out. The
check is made when a location is named and again when it is used.
"""

from collections.abc import Iterable

from django.conf import settings

from engine.errors import PathOutsideRootError, UnsupportedSchemeError
from engine.storage.uri import local_path, normalize_uri


def check_table_uri(uri: str, field: str = "table") -> str:
    """Return the canonical spelling of a table's location; `field` is the request's field.

    Raises:
        PathOutsideRootError: it lies under no root of `TABLE_ROOTS`.
        UnsupportedSchemeError: no store serves its scheme.
    """
    return _check_uri(uri, settings.TABLE_ROOTS, "TABLE_ROOTS", field)


def check_source_uri(uri: str, field: str = "source.uri") -> str:
    """Return the canonical spelling of a source's location; `field` is the request's field.

    Raises:
        PathOutsideRootError: it lies under no root of `SOURCE_ROOTS`.
        UnsupportedSchemeError: no store serves its scheme.
    """
    return _check_uri(uri, settings.SOURCE_ROOTS, "SOURCE_ROOTS", field)


def split_table_uri(uri: str) -> tuple[str, str]:
    """Return the innermost root of a table's location and the path below it, "" for the root."""
    roots = [_real(root).rstrip("/") for root in settings.TABLE_ROOTS]
    above = [root for root in roots if f"{uri}/".startswith(f"{root}/")]
    root = max(above, key=len, default=uri.rpartition("/")[0])
    return root, uri[len(root) :].strip("/")


def storage_options(uri: str) -> dict[str, str]:
    """Return the administrator's options for the longest prefix of the location."""
    prefixes: dict[str, dict[str, str]] = settings.TABLE_STORAGE_OPTIONS
    fitting = [prefix for prefix in prefixes if uri.startswith(prefix)]
    return dict(prefixes[max(fitting, key=len)]) if fitting else {}


def _check_uri(uri: str, roots: Iterable[str], variable: str, field: str) -> str:
    try:
        return _resolve_under_roots(uri, roots, variable)
    except (PathOutsideRootError, UnsupportedSchemeError) as error:
        error.field = field
        raise


def _resolve_under_roots(uri: str, roots: Iterable[str], variable: str) -> str:
    place = _real(uri)
    for root in roots:
        if (place + "/").startswith(_real(root).rstrip("/") + "/"):
            return place
    msg = f"{uri[:500]} is not under one of the directories or URLs that tables may be in."
    raise PathOutsideRootError(msg, f"Ask an administrator to add its root to {variable}.")


def _real(uri: str) -> str:
    try:
        place = normalize_uri(uri)
        path = local_path(place)
        return place if path is None else str(path.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        msg = f"{uri[:500]!r} cannot be resolved to a real path."
        raise PathOutsideRootError(msg, "Use a path without circular links.") from error
