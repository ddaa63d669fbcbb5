"""Subjects of actions: only a subject's latest action counts (protocol: Action Reconciliation).

Reconciled files, checkpoints and log compactions, have one action per subject. One with two
contradicts itself: their order is unknown.
"""

from collections.abc import Hashable, Iterable, Iterator

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.errors import MalformedLogError


def subject_of(action: Action) -> Hashable:
    """Return the key that a newer action must share to replace this one; None if unknown."""
    match action:
        case AddFile() | RemoveFile():
            return ("file", *action.key)
        case Metadata() | Protocol():
            return type(action)
        case SetTransaction():
            return ("application", action.app_id)
        case DomainMetadata():
            return ("domain", action.domain)
        case _:
            return None


def each_once(actions: Iterable[Action], path: str, remedy: str) -> Iterator[Action]:
    """Yield the actions of a log file with one action per subject.

    Raises:
        MalformedLogError: it has two of one subject.
    """
    subjects: set[Hashable] = set()
    for action in actions:
        subject = subject_of(action)
        if subject is not None and subject in subjects:
            msg = f"{path} contradicts itself: it has two actions for {_describe_subject(action)}."
            raise MalformedLogError(msg, remedy)
        subjects.add(subject)
        yield action


def remove_repeats(actions: Iterable[Action], path: str, remedy: str) -> list[Action]:
    """Return the actions of a state without identical duplicates.

    Raises:
        MalformedLogError: two actions on one subject differ.
    """
    kept: list[Action] = []
    seen: dict[Hashable, Action] = {}
    for action in actions:
        subject = subject_of(action)
        if subject is None or subject not in seen:
            seen[subject] = action
            kept.append(action)
        elif seen[subject] != action:
            msg = (
                f"{path} contradicts itself: it has two different actions for "
                f"{_describe_subject(action)}."
            )
            raise MalformedLogError(msg, remedy)
    return kept


def _describe_subject(action: Action) -> str:
    """Describe the subject of an action, for messages."""
    match action:
        case AddFile() | RemoveFile():
            return f"the file {action.path[:500]}"
        case SetTransaction():
            return f"the application {action.app_id[:500]}"
        case DomainMetadata():
            return f"the domain {action.domain[:500]}"
        case _:
            return f"the kind {type(action).__name__}"
