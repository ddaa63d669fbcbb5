"""Files and directories for their owner alone, whatever the umask is. Loaded before Django.

An existing file with a wider mode is narrowed before anything more is written to it.
"""

import os
from pathlib import Path
from typing import IO, Any

_FILE = 0o600
_DIRECTORY = 0o700


def open_private(path: Path, mode: str) -> IO[Any]:
    """Open a file to write to it; texts are UTF-8."""
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, encoding=encoding, opener=_opener)


def write_private(path: Path, text: str) -> None:
    """Write a text file, replacing any."""
    with open_private(path, "w") as file:
        file.write(text)


def make_private_file(path: Path) -> None:
    """Create an empty file, or narrow the mode of an existing one without opening it."""
    path.touch(_FILE)
    path.chmod(_FILE)


def make_private_directory(path: Path) -> None:
    """Create a directory, or narrow the mode of an existing one."""
    path.mkdir(mode=_DIRECTORY, parents=True, exist_ok=True)
    path.chmod(_DIRECTORY)


def _opener(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, _FILE)
    try:
        os.fchmod(descriptor, _FILE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
