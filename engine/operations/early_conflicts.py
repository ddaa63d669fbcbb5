"""Early conflict checks: a long command is aborted as soon as its conflict is certain.

The command raises the same conflict as its commit would. Each check runs in its own thread and
nothing waits for it: the commit checks every winning commit again.
"""

import threading
from time import monotonic

from engine.errors import ConflictError, EngineError
from engine.spark.java_causes import SPARK_ERRORS
from engine.spark.jobs import Progress, ProgressCallback
from engine.transaction.optimistic_transaction import OptimisticTransaction

LOOK_SECONDS = 1.0


class EarlyConflicts:
    """Looks for conflicts of one transaction while progress is reported."""

    def __init__(
        self, txn: OptimisticTransaction, operation: str, user_name: str | None = None
    ) -> None:
        self._txn, self._operation, self._user_name = txn, operation, user_name
        self._looked = monotonic()
        self._look: threading.Thread | None = None
        self._conflict: ConflictError | None = None

    def watch(self, progress: ProgressCallback) -> ProgressCallback:
        """Wrap a progress callback so it also checks for conflicts, and raises one once found.

        Raises (the callback):
            ConflictError: the transaction is certain to be aborted by it.
        """

        def tell(step: Progress) -> None:
            progress(step)
            if self._conflict is not None:
                raise self._conflict
            if monotonic() - self._looked >= LOOK_SECONDS and not self._is_looking:
                self._looked = monotonic()
                self._look = threading.Thread(target=self._find, daemon=True)
                self._look.start()

        return tell

    def tell_observer(self, conflict: ConflictError) -> None:
        """Notify the transaction's observer of the early end."""
        self._txn.end_early(self._operation, conflict)

    @property
    def _is_looking(self) -> bool:
        return self._look is not None and self._look.is_alive()

    def _find(self) -> None:
        try:
            self._conflict = self._txn.find_early_conflict(self._operation, self._user_name)
        except (EngineError, OSError, *SPARK_ERRORS):
            return  # the commit will report it
        finally:
            self._looked = monotonic()
