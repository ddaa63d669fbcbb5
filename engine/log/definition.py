"""Table definitions: protocol and metadata at a version, without files."""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.actions.codec import Action
from engine.actions.table import Metadata, Protocol
from engine.errors import FileMissingError, MalformedLogError
from engine.log.checkpoint_reader import read_manifest
from engine.log.commits import iter_actions
from engine.log.replay import load_table_state
from engine.log.segment import LogSegment, list_segment
from engine.log.subjects import remove_repeats
from engine.storage.base import Store

_OF_FILES = (b'{"add"', b'{"remove"', b'{"cdc"', b'{"commitInfo"', b'{"txn"')


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """Protocol and metadata as of a version."""

    version: int
    protocol: Protocol
    metadata: Metadata


def load_definition(store: Store, version: int | None = None) -> TableDefinition:
    """Load the definition at a version, by default the latest, without a checkpoint's files.

    If this fails, the whole state is read. Errors as in `engine.log.replay.load_table_state`.
    """
    segment = list_segment(store, version)
    try:
        definition = _newest(store, segment)
    except (FileMissingError, MalformedLogError):
        definition = None
    if definition is not None:
        return definition
    state = load_table_state(store, version)
    return TableDefinition(state.version, state.protocol, state.metadata)


def _newest(store: Store, segment: LogSegment) -> TableDefinition | None:
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for action in _actions(store, segment):
        if isinstance(action, Protocol):
            protocol = action
        elif isinstance(action, Metadata):
            metadata = action
    if protocol is None or metadata is None or not metadata.schema_string:
        return None
    return TableDefinition(segment.version, protocol, metadata)


def _actions(store: Store, segment: LogSegment) -> Iterator[Action]:
    if segment.checkpoint is not None:
        paths = [file.path for file in segment.checkpoint.files]
        said = [action for path in paths for action in read_manifest(store, path)]
        yield from remove_repeats(said, paths[0], "Delete the checkpoint.")
    for commit in segment.commits:
        yield from iter_actions(store, commit.path, commit.status.size_bytes, _OF_FILES)
