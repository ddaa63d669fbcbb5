"""The commands for a table, for both kinds of client."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypedDict, TypeVar, Unpack

J = TypeVar("J")


class How(TypedDict, total=False):
    """Options of a job.

    Attributes:
        dry_run: only report its effect.
        retries: how often a job aborted by a conflict is retried.
        reason: for the audit log.
        time_limit_s: how long a worker may take for it.
        idempotency_key: the same key again is the same job again, for 24 hours; generated if left
            out.
    """

    dry_run: bool
    retries: int
    reason: str
    time_limit_s: int
    idempotency_key: str


class Commands(ABC, Generic[J]):
    """The commands of one table; each is answered with a job as soon as it is queued."""

    @abstractmethod
    def _request(self, body: Mapping[str, Any], key: str) -> J: ...

    def sql(self, statement: str, **how: Unpack[How]) -> J:
        """Run a statement, or several separated by `;`."""
        return self._send_command({"sql": statement}, how)

    def run(self, kind: str, parameters: Mapping[str, Any], **how: Unpack[How]) -> J:
        """Run a command by kind, as `tables/{id}/jobs/` takes it; leave out None parameters."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return self._send_command({"kind": kind, "parameters": given}, how)

    def delete(self, where: str | None = None, **how: Unpack[How]) -> J:
        """DELETE the rows of a condition; without one, all rows."""
        return self.run("delete", {"where": where}, **how)

    def update(
        self, assignments: Mapping[str, str], where: str | None = None, **how: Unpack[How]
    ) -> J:
        """UPDATE columns by SQL expressions, in the rows of a condition; without one, in all."""
        return self.run("update", {"assignments": dict(assignments), "where": where}, **how)

    def optimize(
        self, where: str | None = None, zorder_by: Sequence[str] = (), **how: Unpack[How]
    ) -> J:
        """OPTIMIZE the files of partitions; without a condition, all."""
        return self.run("optimize", {"where": where, "zorder_by": list(zorder_by) or None}, **how)

    def vacuum(self, retention_hours: float | None = None, **how: Unpack[How]) -> J:
        """VACUUM files unneeded by the versions of the last hours, by default the retention."""
        return self.run("vacuum", {"retention_hours": retention_hours}, **how)

    def restore(self, version: int, **how: Unpack[How]) -> J:
        """RESTORE the rows of an earlier version, as a new one."""
        return self.run("restore", {"version": version}, **how)

    def _send_command(self, command: Mapping[str, Any], how: How) -> J:
        told = dict(how)
        key = str(told.pop("idempotency_key", ""))
        return self._request({**command, **told}, key)
