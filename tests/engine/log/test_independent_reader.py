"""Logs and checkpoints as deltalake reads them: the same files as this engine's."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.codec import Action
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddFile, DeletionVectorDescriptor
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.paths import commit_path
from engine.protocol.properties import TableProperties
from engine.snapshot.snapshot import load_snapshot
from engine.storage.local import LocalStore
from tests.engine.made_tables import WITH_VECTORS, add, metadata, remove, write_commit

PATHS = ["a", "b", "c%20d", "p=1/x", "ü", "e%2520"]
VECTOR = DeletionVectorDescriptor(
    "i", "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 44, 6
)


@dataclass
class Writer:
    """A writer of valid commits: it removes only live files and adds none twice."""

    store: LocalStore
    draw: Any
    live: dict[str, AddFile]
    version: int = 0

    def commit(self) -> None:
        self.version += 1
        actions: list[Action] = [CommitInfo(operation="WRITE", timestamp=self.version)]
        for path in self.draw(st.sets(st.sampled_from(PATHS), max_size=4)):
            actions += self._remove(path) if path in self.live else self._add(path)
        write_commit(self.store, self.version, *actions)

    def _add(self, path: str) -> list[Action]:
        vector = self.draw(st.sampled_from([None, VECTOR]))
        self.live[path] = add(
            path, size=self.version, deletion_vector=vector, stats='{"numRecords":10}'
        )
        return [self.live[path]]

    def _remove(self, path: str) -> list[Action]:
        """Remove a file, or add or drop its deletion vector."""
        vector = self.live.pop(path).deletion_vector
        actions: list[Action] = [remove(path, deletion_vector=vector, partition_values={})]
        if self.draw(st.booleans()):
            other = VECTOR if vector is None else None
            self.live[path] = add(
                path, size=self.version, deletion_vector=other, stats='{"numRecords":10}'
            )
            actions.append(self.live[path])
        return actions

    def checkpoint(self) -> None:
        state = load_snapshot(self.store).state
        write_checkpoint(self.store, state, TableProperties(), now_ms=0)
        if self.draw(st.booleans()):
            for version in range(self.version + 1):
                self.store.delete(commit_path(version))


@given(st.data())
def test_deltalake_reads_the_same_files(data: Any):
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(folder)
        write_commit(
            store,
            0,
            CommitInfo(operation="CREATE TABLE", timestamp=1),
            WITH_VECTORS,
            metadata(created_time=1),
        )
        writer = Writer(store, data.draw, {})
        for checkpointed in data.draw(st.lists(st.booleans(), max_size=6)):
            writer.commit()
            if checkpointed:
                writer.checkpoint()
        ours = load_snapshot(store)
        theirs = deltalake.DeltaTable(folder)
        assert theirs.version() == ours.version
        paths = sorted(
            str(Path(uri).relative_to(Path(folder).resolve())) for uri in theirs.file_uris()
        )
        assert paths == sorted(unquote(add_file.path) for add_file in ours.add_files())
        assert sorted(add_file.path for add_file in ours.add_files()) == sorted(writer.live)
