"""A simple model of the log: apply every commit from zero; the newest action wins."""

from collections.abc import Sequence

from engine.actions.codec import Action
from engine.actions.files import AddFile, FileKey, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, SetTransaction
from engine.log.file_table import adds_of, removes_of
from engine.log.replay import TableState
from tests.engine.made_tables import metadata


class Model:
    """The state after some commits."""

    def __init__(self, commits: Sequence[Sequence[Action]]) -> None:
        self.files: dict[FileKey, AddFile | RemoveFile] = {}
        self.transactions: dict[str, SetTransaction] = {}
        self.domains: dict[str, DomainMetadata] = {}
        self.metadata = metadata()
        for action in (action for commit in commits for action in commit):
            match action:
                case AddFile() | RemoveFile():
                    self.files[action.key] = action
                case SetTransaction():
                    self.transactions[action.app_id] = action
                case DomainMetadata():
                    self.domains[action.domain] = action
                case Metadata():
                    self.metadata = action

    def assert_is(self, state: TableState) -> None:
        """Check that a state equals the model."""
        live = {key: file for key, file in self.files.items() if isinstance(file, AddFile)}
        gone = {key: file for key, file in self.files.items() if isinstance(file, RemoveFile)}
        assert {file.key: file for file in adds_of(state.files)} == live
        assert state.files.num_rows == len(live)
        assert {file.key: file for file in removes_of(state.tombstones)} == gone
        assert state.tombstones.num_rows == len(gone)
        assert state.set_transactions == self.transactions
        assert state.domains == {k: d for k, d in self.domains.items() if not d.removed}
        assert state.metadata == self.metadata
