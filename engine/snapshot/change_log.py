"""The log of a stream of changes: whole versions, each with its inserts, deletes and updates."""

from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.actions.table import Metadata, Protocol
from engine.log.management import check_access
from engine.snapshot.stream_log import Position, StreamError, StreamLimits, StreamLog


class ChangeLog(StreamLog):
    """A log with positions between versions, or before the first version's rows."""

    def batch_end(self, start: Position, limits: StreamLimits, last_version: int) -> Position:
        """Return the end of a batch; a version is never split, even with many changed files."""
        if start.version > last_version + 1:
            self._check_reached(start)
        end, count, size = start, 0, 0
        try:
            if start.initial:
                files = self._files_of_snapshot(start.version)
                count, size = len(files), sum(add.size for add in files)
                end = Position(start.version + 1)
            while end.version <= last_version and (not count or limits.allow(count, size)):
                more, bytes_more = self._count(end.version)
                count, size = count + more, size + bytes_more
                end = Position(end.version + 1)
        except StreamError:
            if end == start:
                raise
        self._check_in_place()
        return end

    def ranges(self, start: Position, end: Position, files: int) -> list[tuple[int, int]]:
        """Split the versions between two positions into inclusive ranges of about `files` files.

        Raises:
            StreamError: the stream may not continue.
        """
        pieces: list[tuple[int, int]] = []
        room = 0
        for version in range(start.version + start.initial, end.version):
            count, _ = self._count(version)
            if not count:
                continue
            if count > room or not pieces:
                pieces.append((version, version))
                room = files
            pieces[-1] = (pieces[-1][0], version)
            room -= count
        self._check_in_place()
        return pieces

    def _count(self, version: int) -> tuple[int, int]:
        """Count the files a version changed and their bytes, and check its metadata and protocol."""
        count = size = 0
        for action in self._commit(version).actions:
            match action:
                case Metadata():
                    self._check_metadata(version, action)
                case Protocol():
                    check_access(self.store, action)
                case AddCDCFile():
                    count, size = count + 1, size + action.size
                case AddFile() | RemoveFile() if action.data_change:
                    count, size = count + 1, size + (action.size or 0)
                case _:
                    pass
        return count, size
