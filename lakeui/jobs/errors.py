"""Why a job was not taken: errors of the same shape as the engine's."""

from engine.errors import EngineError, OperationCancelledError, RequestError
from engine.words import count_noun


class ReadOnlyError(EngineError, code="LAKE_READ_ONLY", sqlstate="25006"):
    """This installation takes no jobs."""

    def __init__(self) -> None:
        super().__init__(
            "This installation is read-only.",
            "Ask an administrator to restart it without READ_ONLY.",
        )


class NotPermittedError(EngineError, code="LAKE_NOT_PERMITTED", sqlstate="42501"):
    """The person's role is below the job's required role."""

    def __init__(self, what: str, action: str, table: str) -> None:
        super().__init__(
            f"{what} requires the right to {action} {table}.",
            "Ask an administrator for a role with this right.",
        )
        self.action, self.table = action, table


class RequesterGoneError(EngineError, code="LAKE_REQUESTER_GONE", sqlstate="42501"):
    """The requester's account no longer exists, so its rights cannot be checked."""

    def __init__(self) -> None:
        super().__init__(
            "The person who requested this job no longer has an account. Nothing was written.",
            "Ask a person with the right to run it again.",
        )


class IdempotencyMismatchError(RequestError, code="LAKE_IDEMPOTENCY_KEY_REUSED"):
    """The key was used within a day for another request."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The idempotency key {key!r} was used for a different request.",
            "Send the same request again, or use a new key.",
            field="idempotency_key",
        )


class UploadNotFoundError(RequestError, code="LAKE_UPLOAD_NOT_FOUND"):
    """A source names uploads, and none of them is the person's."""

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"You have no uploaded file at {uri[:500]}.",
            "Upload the file, then use the file path that the answer contains.",
            field="source.uri",
        )


class TooManyJobsError(RequestError, code="LAKE_TOO_MANY_JOBS"):
    """A person has as many unfinished jobs of a kind as one person may."""

    def __init__(self, noun: str, limit: int) -> None:
        super().__init__(
            f"You already have {count_noun(limit, f'unfinished {noun}')}, which is the limit.",
            "Wait until one ends, or cancel one.",
        )
        self.limit = limit


class UploadQuotaError(RequestError, code="LAKE_UPLOAD_QUOTA"):
    """A person's uploaded files would take more bytes than one person's may."""

    def __init__(self, kept_bytes: int, limit: int) -> None:
        super().__init__(
            f"Your uploaded files take {kept_bytes:,} of {limit:,} bytes, and this file does not "
            "fit.",
            "Files are deleted some days after their last job. Put large files under a root in "
            "SOURCE_ROOTS and use their path.",
            field="file",
        )


class TooManyPreviewsError(RequestError, code="LAKE_TOO_MANY_PREVIEWS"):
    """Too many uploaded files are previewed at this moment, by the person or by everybody."""

    def __init__(self) -> None:
        super().__init__(
            "Too many previews of uploaded files are in progress.",
            "Try again in a few seconds.",
            field="file",
        )


class JobStateError(RequestError, code="LAKE_JOB_STATE"):
    """The job's state does not allow the request."""

    def __init__(self, what: str, state: str) -> None:
        super().__init__(f"A job that is {state} cannot be {what}.", "Reload the job.")
        self.state = state


class TimeLimitError(OperationCancelledError, code="LAKE_TIME_LIMIT"):
    """The job ran longer than it may."""

    def __init__(self, seconds: int) -> None:
        super().__init__(
            f"The job was stopped at its time limit of {seconds:,} s.",
            "Request a longer time limit, or process less at a time: fewer partitions or a "
            "narrower condition.",
        )
        self.time_limit_s = seconds


class LeaseLostError(OperationCancelledError, code="LAKE_LEASE_LOST"):
    """Another worker has the job now: this one may no longer write to its row."""

    def __init__(self) -> None:
        super().__init__("Another worker has taken the lease of this job.")
