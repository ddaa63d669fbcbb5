"""A rule of the engine, and the text replacement that breaks it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """A rule, the file that holds it, and the text that goes and comes."""

    rule: str
    path: str
    old: str
    new: str
