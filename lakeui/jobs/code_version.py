"""The code version of a process: its release, and a digest of the code."""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_HOUSE = Path(__file__).resolve().parents[2]
_PACKAGES = ("engine", "lakeui", "workers")


@cache
def code_version() -> str:
    """Return the release and eight digits of its source files, as of the first call."""
    return f"{_release()}+{source_digest(_HOUSE)}"


def source_digest(house: Path) -> str:
    """Eight digits of the names and contents of every source file."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((house / package).rglob("*.py")):
            digest.update(f"{path.relative_to(house)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:8]


def _release() -> str:
    try:
        return version("lakeui")
    except PackageNotFoundError:
        return "0"
