"""`results.md`: a part for each measurement, written again by itself."""

from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).with_name("results.md")
_INTRODUCTION = """# Measurements

Written by `make bench`: this engine and another way, side by side in one run on one machine. A ratio
above 1 is in this engine's favor. Absolute numbers are of this machine, on the day; ratios are what
to compare. Nothing in the tests depends on time.
"""


def write_part(title: str, text: str, order: Sequence[str], path: Path = RESULTS) -> None:
    """Put a part in its place; what `order` does not name stays behind what it names."""
    parts = read_parts(path) | {title: text.strip()}
    known = [name for name in order if name in parts]
    others = [name for name in parts if name not in order]
    texts = [f"## {name}\n\n{parts[name]}\n" for name in (*known, *others)]
    path.write_text("\n".join([_INTRODUCTION, *texts]), "utf-8")


def read_parts(path: Path = RESULTS) -> dict[str, str]:
    """Return the text of each part by its title."""
    text = path.read_text("utf-8") if path.is_file() else ""
    parts: dict[str, str] = {}
    for part in text.split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        parts[title.strip()] = rest.strip()
    return parts
