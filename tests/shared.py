"""Where the reference material lies: tables of other engines and conflict cases, beside the checkout.

They are not part of the repository. Tests that need them skip, with a reason, where they are not.
"""

import json
from pathlib import Path
from typing import Any

import pytest

_BESIDE = Path(__file__).resolve().parents[2] / "shared"
SHARED: Path | None = _BESIDE if _BESIDE.is_dir() else None
needs_shared = pytest.mark.skipif(
    SHARED is None, reason="the reference material is not beside this checkout"
)


def shared_lines(name: str) -> list[dict[str, Any]]:
    """The JSON lines of a reference file, none where it is absent."""
    path = _BESIDE / name
    return (
        [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
        if path.is_file()
        else []
    )
