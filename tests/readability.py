"""Measures of readability: names, docstrings, lines, and the files that one request touches.

    python -m tests.readability [--requests]

`--requests` also serves requests to a lake of its own, which takes a minute. Each line of the table
is one measure; `tests/test_names.py` checks names by the rules that are measured here.
"""

import argparse
import ast
import gc
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("engine", "lakeui", "workers")
HOUSES = (*PRODUCT, "benchmarks", "tests")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_IRREGULAR = frozenset(
    [
        "begun",
        "born",
        "borne",
        "bound",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "dealt",
        "done",
        "drawn",
        "driven",
        "fallen",
        "fed",
        "felt",
        "forgotten",
        "forgiven",
        "found",
        "frozen",
        "given",
        "gone",
        "got",
        "gotten",
        "grown",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "led",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "mistaken",
        "overtaken",
        "overwritten",
        "paid",
        "proven",
        "rebuilt",
        "remade",
        "resent",
        "rewritten",
        "risen",
        "said",
        "sat",
        "seen",
        "sent",
        "shown",
        "sold",
        "sought",
        "spent",
        "split",
        "spoken",
        "stolen",
        "stood",
        "struck",
        "stuck",
        "sunk",
        "swept",
        "taken",
        "taught",
        "thought",
        "thrown",
        "told",
        "torn",
        "undertaken",
        "undone",
        "unbound",
        "unfound",
        "ungiven",
        "unknown",
        "unmade",
        "unsaid",
        "unseen",
        "unsent",
        "untold",
        "unwritten",
        "upheld",
        "withdrawn",
        "withheld",
        "won",
        "worn",
        "wound",
        "written",
    ]
) - {"split"}  # a verb in the base form as well
_ENDS_LIKE_ONE = frozenset(
    [
        "bed",
        "bleed",
        "breed",
        "creed",
        "deed",
        "embed",
        "exceed",
        "feed",
        "greed",
        "heed",
        "need",
        "proceed",
        "red",
        "reseed",
        "seed",
        "shed",
        "shred",
        "speed",
        "succeed",
        "weed",
        "bring",
        "ceiling",
        "cling",
        "during",
        "evening",
        "everything",
        "fling",
        "king",
        "morning",
        "nothing",
        "anything",
        "something",
        "ping",
        "ring",
        "sibling",
        "sing",
        "sling",
        "spring",
        "sting",
        "string",
        "substring",
        "swing",
        "thing",
        "wing",
    ]
)
_FIELD_NOUNS = frozenset(
    [
        "binding",
        "clustering",
        "encoding",
        "grouping",
        "heading",
        "listing",
        "mapping",
        "monitoring",
        "ordering",
        "padding",
        "setting",
        "spelling",
        "timing",
        "tracking",
        "warning",
        "wording",
    ]
)
_PREPOSITIONS = frozenset(
    [
        "about",
        "above",
        "across",
        "after",
        "against",
        "along",
        "amid",
        "among",
        "around",
        "as",
        "at",
        "before",
        "behind",
        "below",
        "beneath",
        "beside",
        "between",
        "beyond",
        "by",
        "down",
        "during",
        "except",
        "for",
        "from",
        "in",
        "inside",
        "into",
        "like",
        "near",
        "of",
        "off",
        "on",
        "onto",
        "out",
        "outside",
        "over",
        "past",
        "per",
        "since",
        "than",
        "through",
        "throughout",
        "to",
        "toward",
        "under",
        "until",
        "unlike",
        "up",
        "upon",
        "via",
        "with",
        "within",
        "without",
    ]
)
_CONVERSIONS = frozenset(["from", "to"])  # `from_json` and `to_arrow`: Python's and the field's own
_FIELD_TERMS = frozenset(["as_dict", "as_json", "as_sqlite", "reporting"])
_HOOKS = frozenset(["_missing_", "observed", "using"])  # enum's, `engine.delta`'s and PySpark's
_EVENTS = frozenset(
    ["started", "staged", "before_commit", "committed", "failed", "resolved", "aborted"]
)


@dataclass(frozen=True)
class NamedFunction:
    """A function or method, and where it is defined."""

    path: str
    line: int
    name: str
    is_property: bool
    is_method: bool


@dataclass(frozen=True)
class NamedClass:
    """A class, and where it is defined. `is_nested` classes are parts of the class around them."""

    path: str
    line: int
    name: str
    is_nested: bool


def trees(*houses: str) -> tuple[tuple[str, ast.Module], ...]:
    """Return the modules of some houses with their trees; migrations are written by Django."""
    return tuple(module for house in houses for module in _trees_of(house))


@cache
def _trees_of(house: str) -> tuple[tuple[str, ast.Module], ...]:
    """Parse without garbage collection, which would take two thirds of the time."""
    gc.disable()
    try:
        return tuple(
            (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8")))
            for path in sorted((ROOT / house).rglob("*.py"))
            if "migrations" not in path.parts
        )
    finally:
        gc.enable()
        gc.freeze()


def _definitions(
    node: ast.AST, around: tuple[ast.AST, ...] = ()
) -> Iterator[tuple[ast.ClassDef | FunctionNode, tuple[ast.AST, ...]]]:
    """Iterate over classes and functions with their parents; expressions contain none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | FunctionNode):
            yield child, (*around, node)
        if not isinstance(child, ast.expr):
            yield from _definitions(child, (*around, node))


def iter_functions(*houses: str) -> Iterator[NamedFunction]:
    """Iterate over every function, dunders left out."""
    for path, tree in trees(*houses):
        for node, around in _definitions(tree):
            if isinstance(node, FunctionNode) and not node.name.startswith("__"):
                is_method = isinstance(around[-1], ast.ClassDef)
                yield NamedFunction(path, node.lineno, node.name, _is_property(node), is_method)


def _is_property(node: FunctionNode) -> bool:
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    return any(
        text in {"property", "cached_property", "classproperty"} or text.endswith(".setter")
        for text in decorators
    )


def iter_classes(*houses: str) -> Iterator[NamedClass]:
    """Iterate over every class."""
    for path, tree in trees(*houses):
        for node, around in _definitions(tree):
            if isinstance(node, ast.ClassDef):
                is_nested = any(isinstance(outer, ast.ClassDef) for outer in around)
                yield NamedClass(path, node.lineno, node.name, is_nested)


def first_word(name: str) -> str:
    """Return the first word of a name."""
    return name.strip("_").partition("_")[0]


def is_participle(word: str) -> bool:
    """Whether a word is a participle of a verb; nouns of the field that look like one are not."""
    if word in _IRREGULAR:
        return True
    looks_like_one = (word.endswith("ed") and len(word) > 3) or (
        word.endswith("ing") and len(word) > 4
    )
    return looks_like_one and word not in _ENDS_LIKE_ONE | _FIELD_NOUNS


def is_preposition(word: str) -> bool:
    """Whether a word is a preposition."""
    return word in _PREPOSITIONS


def name_fault(function: NamedFunction) -> str:
    """Return what is wrong with a function's name; "" if nothing is.

    Properties are nouns or questions, and may be a participle. An observer's methods are events.
    Names that frameworks call, and those in camelCase that PySpark has, are theirs.
    """
    name, word = function.name.strip("_"), first_word(function.name)
    if function.is_property or name in _FIELD_TERMS or not word.islower():
        return ""
    if function.is_method and (function.name in _HOOKS or name in _EVENTS):
        return ""
    if is_participle(word):
        return f"{function.name} begins with a participle"
    if is_preposition(word) and not (word in _CONVERSIONS and "_" in name):
        return f"{function.name} begins with a preposition"
    return ""


def docstrings(*houses: str) -> Iterator[str]:
    """Iterate over the docstrings of modules, classes and functions."""
    for _, tree in trees(*houses):
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | FunctionNode):
                text = ast.get_docstring(node)
                if text:
                    yield text


def measure() -> dict[str, str]:
    """Return each measure of the names and docstrings by its label."""
    functions = [f for f in iter_functions(*PRODUCT) if not f.is_property]
    heads = [first_word(function.name) for function in functions]
    names = Counter(one.name for one in iter_classes(*PRODUCT) if not one.is_nested)
    words = re.findall(r"[A-Za-z']+", " ".join(docstrings(*PRODUCT)))
    relatives = sum(word.lower() in {"what", "that", "which"} for word in words)
    return {
        "modules": f"{len(trees(*PRODUCT)):,}",
        "functions named by a participle": _share(map(is_participle, heads)),
        "functions named by a preposition": _share(map(is_preposition, heads)),
        "class names that exist twice or more": f"{sum(n > 1 for n in names.values())}",
        '"what", "that", "which" per 100 words of docstrings': f"{100 * relatives / len(words):.1f}",
        "docstrings that violate D401": f"{_count_d401():,}",
        "lines of engine": f"{_count_lines('engine'):,}",
        "lines of lakeui": f"{_count_lines('lakeui'):,}",
    }


def _share(answers: Iterator[bool]) -> str:
    given = list(answers)
    return f"{100 * sum(given) / len(given):.1f} %"


def _count_lines(house: str) -> int:
    paths = (ROOT / house).rglob("*.py")
    return sum(
        len(path.read_text("utf-8").splitlines())
        for path in paths
        if "migrations" not in path.parts
    )


def _count_d401() -> int:
    command = [sys.executable, "-m", "ruff", "check", "--select", "D401", "--output-format", "json"]
    style = ["--config", 'lint.pydocstyle.convention="google"', "--isolated"]
    ended = subprocess.run(  # noqa: S603 - ruff, over this tree
        [*command, *style, "--exclude", "*/migrations/*", *PRODUCT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return len(json.loads(ended.stdout))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measures how the code reads.")
    parser.add_argument("--requests", action="store_true", help="count the files a request touches")
    rows = measure()
    if parser.parse_args().requests:
        rows |= _measure_requests()
    width = max(map(len, rows))
    lines = [f"| {label.ljust(width)} | {value} |" for label, value in rows.items()]
    sys.stdout.write("\n".join([f"| {''.ljust(width)} | here |", "|-|-|", *lines]) + "\n")


def _measure_requests() -> dict[str, str]:
    """Return the counts that the test of the requests prints; it has the lake and the database."""
    test = "tests/workers/test_request_costs.py"
    ended = subprocess.run(  # noqa: S603 - our own test
        [sys.executable, "-m", "pytest", test, "-q", "-s", "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return dict(re.findall(r"^(.+?): (\d+) files", ended.stdout, flags=re.M))


if __name__ == "__main__":
    main()
