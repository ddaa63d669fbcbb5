"""The directory that holds everything the embedded stack keeps. No Django here: it comes first.

`LAKEUI_HOME` is `var` beside the code unless the environment names another place.
"""

import os
import secrets
from pathlib import Path

_BESIDE = Path(__file__).resolve().parents[2]
_DIRECTORIES = ("lake", "uploads", "logs", "run")
_PRIVATE = 0o700


def home() -> Path:
    """The directory, whether it exists or not."""
    return Path(os.environ.get("LAKEUI_HOME", str(_BESIDE / "var"))).resolve()


def prepare_home() -> None:
    """Make the directory and its secret key, and tell this process and its children to be embedded.

    Raises:
        OSError: the place cannot be written to.
    """
    place = home()
    place.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    for name in _DIRECTORIES:
        (place / name).mkdir(mode=_PRIVATE, exist_ok=True)
    if "SECRET_KEY" not in os.environ:
        _ensure_key(place / "secret_key")
    os.environ["LAKEUI_HOME"] = str(place)
    os.environ["LAKEUI_EMBEDDED"] = "1"


def _ensure_key(path: Path) -> None:
    """A key of this installation alone, readable by its owner alone, whole or not at all."""
    if path.is_file():
        return
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secrets.token_urlsafe(48))
    fresh.rename(path)
