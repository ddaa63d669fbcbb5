"""A model of LIKE as the standard defines it, character by character, with sample texts and patterns."""

import random

ALPHABET = ("a", "b", "A", "é", "\U0001f600", "\n", "\\", ".", "$", "Q", "E")
_PARTS = (
    "%",
    "%",
    "_",
    "_",
    "\\%",
    "\\_",
    "\\\\",
    *(letter for letter in ALPHABET if letter != "\\"),
)
_SHAPES = ("", "%", "_", "%%", "a%", "%a", "%a%", "a%b", "a%b%a", "%a%a%b", "_%_", "%_a", "\\%%a%")


def matches(text: str, pattern: str, escape: str = "\\") -> bool:
    """Return True if the whole text matches the pattern, in time linear in both."""
    reached = {0}
    for token, is_wildcard in _tokens(pattern, escape):
        if is_wildcard and token == "%":
            reached = set(range(min(reached), len(text) + 1)) if reached else set()
        else:
            reached = {
                at + 1 for at in reached if at < len(text) and (is_wildcard or text[at] == token)
            }
    return len(text) in reached


def texts(count: int, seed: int = 1) -> list[str | None]:
    """Return short texts over few letters, so that pieces of patterns often occur in them."""
    dice = random.Random(seed)  # noqa: S311 - reproducible
    made = ["".join(dice.choices(ALPHABET[:8], k=dice.randint(0, 9))) for _ in range(count)]
    return [None, "", "a" * 20, "ab" * 10, *made]


def patterns(count: int, seed: int = 2) -> list[str]:
    """Return patterns with `\\` as their escape character."""
    dice = random.Random(seed)  # noqa: S311 - reproducible
    return [*_SHAPES, *("".join(dice.choices(_PARTS, k=dice.randint(0, 7))) for _ in range(count))]


def replace_escape(escape: str, pattern: str) -> str:
    """Return a pattern with another escape character in place of `\\`."""
    made = []
    for token, is_wildcard in _tokens(pattern, "\\"):
        stands_for_itself = not is_wildcard and token in {"%", "_", escape}
        made.append(escape + token if stands_for_itself else token)
    return "".join(made)


def _tokens(pattern: str, escape: str) -> list[tuple[str, bool]]:
    tokens, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            tokens.append((next(characters), False))
        else:
            tokens.append((character, character in "%_"))
    return tokens
