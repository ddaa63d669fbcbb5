"""Tests of refused access run as an ordinary user, whoever runs the suite: root may read anything."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def ordinary_user(place: Path) -> Iterator[None]:
    """Give up root's rights for a while, in a directory that others can still reach."""
    if os.geteuid() != 0:
        yield
        return
    for directory in place.parents:
        if directory.is_relative_to(Path(tempfile.gettempdir())):
            directory.chmod(directory.stat().st_mode | 0o011)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
