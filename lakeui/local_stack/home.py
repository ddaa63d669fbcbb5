"""The directory of the embedded stack's data. No Django here: it comes first.

`LAKEUI_HOME` names it. Without that it is `var` in a checkout, and `.lakeui` in the user's home
where the package is installed.
"""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from lakeui.private_files import make_private_directory, make_private_file, write_private

_CODE = Path(__file__).resolve().parents[2]
_BUNDLED = _CODE / "lakeui" / "bundled"
_DIRECTORIES = ("lake", "uploads", "logs", "run")
_DATABASE = "lakeui.sqlite3"
_BESIDE_DATABASE = ("-wal", "-shm", "-journal")
_ROOTS = ("TABLE_ROOTS", "SOURCE_ROOTS")
_URL = "http://127.0.0.1:8000"


def home() -> Path:
    """Return the directory, whether it exists or not."""
    default = Path.home() / ".lakeui" if _BUNDLED.is_dir() else _CODE / "var"
    return Path(os.environ.get("LAKEUI_HOME", str(default))).resolve()


def page_files() -> Path:
    """Return the directory of `templates` and `static`: in the wheel, or in the checkout."""
    return _BUNDLED if _BUNDLED.is_dir() else _CODE


def command_name() -> str:
    """Return how a reader runs a command: `lakeui`, or `manage.py` in a checkout."""
    return "lakeui" if _BUNDLED.is_dir() else ".venv/bin/python manage.py"


def prepare_home() -> None:
    """Create the directory and its secret key, and set this process and its children to embedded.

    Raises:
        OSError: the directory cannot be written to.
    """
    place = home()
    if not place.is_dir():  # an existing one may hold foreign files
        make_private_directory(place)
    for name in _DIRECTORIES:
        make_private_directory(place / name)
    if "DATABASE_URL" not in os.environ:
        _ensure_database(place / _DATABASE)
    if "SECRET_KEY" not in os.environ:
        _ensure_key(place / "secret_key")
    os.environ["LAKEUI_HOME"] = str(place)
    os.environ["LAKEUI_EMBEDDED"] = "1"


def remember_roots(place: Path, environment: Mapping[str, str]) -> None:
    """Store the roots named at a start of the stack. An empty value clears them.

    A later start, and commands in other shells, use them unless they name others.
    """
    named = {name: environment[name] for name in _ROOTS if name in environment}
    if named:
        write_private(_roots_file(place), json.dumps(_read_roots_file(place) | named))


def read_roots(place: Path, name: str) -> list[str]:
    """Return the roots in that variable at the stack's last start; none without a start."""
    return [
        part.strip() for part in _read_roots_file(place).get(name, "").split(",") if part.strip()
    ]


def remember_url(place: Path, url: str) -> None:
    """Store the stack's address, for later links."""
    write_private(place / "run" / "url", url)


def read_url(place: Path) -> str:
    """Return the present or last address of the stack."""
    try:
        return (place / "run" / "url").read_text("utf-8").strip() or _URL
    except OSError:
        return _URL


def _roots_file(place: Path) -> Path:
    return place / "run" / "roots.json"


def _read_roots_file(place: Path) -> dict[str, str]:
    try:
        roots = json.loads(_roots_file(place).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in roots.items()} if roots else {}


def _ensure_key(path: Path) -> None:
    """Create a key for this installation, readable by its owner only, completely or not at all."""
    if path.is_file():
        return
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    write_private(fresh, secrets.token_urlsafe(48))
    fresh.rename(path)


def _ensure_database(path: Path) -> None:
    """Create an empty file as an empty database; SQLite gives its side files the same mode."""
    make_private_file(path)
    for file in (path.with_name(f"{path.name}{end}") for end in _BESIDE_DATABASE):
        if file.exists():
            make_private_file(file)
