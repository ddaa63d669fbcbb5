"""Errors of the client of the REST interface."""

from collections.abc import Mapping
from typing import Any

from lakeui.client.records import Conflict, JobRecord


class ClientError(Exception):
    """The base of all errors of this client."""


class NotReachedError(ClientError):
    """The server could not be reached, or did not answer in time. The request's effect is unknown.

    A request that changes something carries an idempotency key, so it is safe to repeat it with the
    same key.
    """


class ApiError(ClientError):
    """An unsuccessful answer (RFC 9457), or one that this client does not understand.

    Attributes:
        status: of HTTP.
        code: stable; test this one. UNEXPECTED_ANSWER: a success from outside this interface.
        detail: for people.
        fields: the errors, by field.
        problem: the whole answer.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status, self.problem = status, dict(problem)
        self.code = str(problem.get("code") or f"HTTP_{status}")
        self.detail = str(problem.get("detail") or "")
        faults = problem.get("errors")
        self.fields = {
            str(fault.get("field", "")): str(fault.get("message", ""))
            for fault in (faults if isinstance(faults, list) else [])
            if isinstance(fault, Mapping)
        }
        more = "".join(f" {name}: {fault}" for name, fault in self.fields.items())
        super().__init__(f"{self.code} ({status}): {self.detail}{more}")


class JobFailedError(ClientError):
    """A job failed. `job` has its error code, message and facts."""

    def __init__(self, job: JobRecord) -> None:
        self.job = job
        super().__init__(f"{job.error_code or job.state}: {job.error_message or job.statement}")


class JobCancelledError(JobFailedError):
    """The job was cancelled: it wrote nothing."""


class WriteConflictError(JobFailedError):
    """The job was aborted by a conflict with another writer's commit; it wrote nothing.

    Attributes:
        conflict: the winning commit, and why. None if it can no longer be read.
    """

    def __init__(self, job: JobRecord, conflict: Conflict | None) -> None:
        super().__init__(job)
        self.conflict = conflict
