"""One table in one session: the shared state of the API's classes, and its calls to the engine."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from engine.commands.command import Command
from engine.commands.merge import Merge
from engine.commands.model import Append, Create, Delete, Overwrite, Update
from engine.commands.names import is_location
from engine.delta.exceptions import delta_errors
from engine.delta.names import locate, open_table, parts_of
from engine.errors import IllegalOptionError, RequestError
from engine.expressions.literals import is_whole
from engine.operations.named_tables import open_location
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.reports.transactions import report_transaction, words_of
from engine.spark.column_trees import CallerFrames
from engine.spark.session import bypass_routing, has_engine_terms, send_engine
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver

APP_ID, APP_VERSION = "txnAppId", "txnVersion"
MAX_ROWS = "maxRecordsPerFile"
OPTIONS = {
    "txnappid": APP_ID,
    "txnversion": APP_VERSION,
    "usermetadata": "userMetadata",
    "maxrecordsperfile": MAX_ROWS,
}
DATA_CHANGE = "dataChange"
_FRAMES = 16
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_WRITE_SETTING = "spark.databricks.delta.write."
_AUTO_RESET = f"{_WRITE_SETTING}txnVersion.autoReset.enabled"
_DONE_ONCE = (Append, Create, Delete, Merge, Overwrite, Update)
"""Commands that use an application's id and version from the session's settings."""
RETRIES = "spark.lakeui.retries"
"""The session setting for the number of retries after a retryable conflict."""


class IdempotentOptionError(IllegalOptionError, code="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"):
    """An application's id without a version, or with a version that is not a number."""


@dataclass(frozen=True)
class Handle:
    """A table, the session, and the options of writes.

    Attributes:
        name: in the session's catalog; "" if the table is known by its path.
        alias: the alias of the table in conditions and values.
        retries: how often a write is retried after a retryable conflict; None for the session's
            setting.
        reads_anew: whether a retry builds its sources anew, as SQL text does.
        options: those of `option`, by delta-spark's names.
        observer: receives each phase of each of its transactions.
        frames: the last DataFrames of the table, whose columns conditions may hold.
    """

    spark: SparkSession
    table: DeltaTable
    name: str = ""
    alias: str = ""
    retries: int | None = None
    reads_anew: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    observer: TransactionObserver | None = None
    frames: "deque[DataFrame]" = field(default_factory=lambda: deque(maxlen=_FRAMES), compare=False)

    def set_option(self, key: str, value: object) -> "Handle":
        """Return this handle with an option set.

        Raises:
            RequestError: there is no such option.
        """
        name = OPTIONS.get(str(key).lower())
        if name is None:
            what = f"A write has no option {key}."
            options = ", ".join(sorted(OPTIONS.values()))
            raise RequestError(what, f"The options are {options}.", field="option")
        return replace(self, options={**self.options, name: str(value)})

    def caller(self, source: DataFrame | None = None) -> CallerFrames:
        """Return the frames of conditions and values."""
        terms = has_engine_terms(self.spark)
        name = () if self.alias else parts_of(self.name)
        return CallerFrames(self.spark, source, tuple(self.frames), terms, name)

    @property
    def qualifier(self) -> str:
        """The prefix of the table's columns: its alias, or the last part of its name."""
        return self.alias or self.name.replace("`", "").rpartition(".")[2]

    def setting(self, key: str) -> str | None:
        """Return a setting of the session, None if it is not set."""
        return self.spark.conf.get(key, None)

    def is_set(self, key: str) -> bool:
        """Whether a setting of the session is true."""
        return (self.setting(key) or "").lower() == "true"

    @property
    def overwrites_partitions(self) -> bool:
        """Whether the session's overwrites replace only the partitions of the new rows."""
        return (self.setting(_OVERWRITE_MODE) or "").lower() == "dynamic"

    def run(self, command: Command, *, dry_run: bool = False) -> OperationResult:
        """Run a command at the table, or find out its effect.

        Raises:
            EngineError: as `engine.operations.run.run`, under the names of
                `engine.delta.exceptions`.
        """
        metadata = self.options.get("userMetadata") or self.setting(_USER_METADATA)
        send_engine(self.spark)
        words = partial(self._words, command)
        told = report_transaction(self.observer, self.table.uri, words, is_told=not dry_run)
        with delta_errors(), told as observer:
            options = RunOptions(
                retries=session_retries(self.spark) if self.retries is None else self.retries,
                observer=observer,
                application=self._application(command),
                user_metadata=metadata,
                max_rows_per_file=self._max_rows(command),
                resolve=self._open_named,
                open_changed=self._open_named,
                data_change=self.options.get(DATA_CHANGE) != "false",
                dry_run=dry_run,
            )
            with bypass_routing():
                result = run(command, self.table, self.spark, options)
            self._reset_version(options)
            return result

    def _open_named(self, name: str) -> DeltaTable:
        """Return the table that a statement of the engine's grammar reads, by name or location.

        Raises:
            NotADeltaTableError: the session's catalog has no such Delta table.
        """
        if is_location(name):
            return open_location(name, self.table)
        place = locate(self.spark, name)
        return open_table(self.spark, place.location, name=name)

    def _words(self, command: Command) -> tuple[str, str, str]:
        """Return the command's wording in reports."""
        return *words_of(command), self.setting("spark.app.name") or ""

    def _application(self, command: Command) -> tuple[str, int] | None:
        """Return a write's application id and version, from its options or the session."""
        app_id, version = self.options.get(APP_ID), self.options.get(APP_VERSION)
        if app_id is None and version is None and isinstance(command, _DONE_ONCE):
            app_id, version = (
                self.setting(f"{_WRITE_SETTING}{name}") for name in (APP_ID, APP_VERSION)
            )
        if app_id is None and version is None:
            return None
        if app_id is None or version is None or not version.lstrip("-").isdecimal():
            what = f"{APP_ID} is {app_id!r} and {APP_VERSION} is {version!r}."
            raise IdempotentOptionError(
                what, "Give both, the version as a whole number.", field=APP_ID
            )
        return app_id, int(version)

    def _max_rows(self, command: Command) -> int:
        """Return the most rows of a file, by the options, else by the session's settings."""
        text = self.options.get(MAX_ROWS) or self.setting(f"spark.sql.files.{MAX_ROWS}") or "0"
        if not is_whole(text := text.strip()):
            what = f"{MAX_ROWS} is {text[:60]!r}."
            raise RequestError(what, "Use a whole number. Use 0 for no limit.", field=MAX_ROWS)
        return int(text) if isinstance(command, _DONE_ONCE) else 0

    def _reset_version(self, options: RunOptions) -> None:
        """Unset the version in the session's settings if they request it."""
        of_settings = options.application is not None and APP_ID not in self.options
        if of_settings and (self.setting(_AUTO_RESET) or "").lower() == "true":
            self.spark.conf.unset(f"{_WRITE_SETTING}{APP_VERSION}")


def session_retries(spark: SparkSession) -> int:
    """Return how often the session's writes are retried after a retryable conflict.

    Raises:
        RequestError: the setting is not a number.
    """
    text = str(spark.conf.get(RETRIES, None) or 0).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 5):
        what = f"{RETRIES} is {text[:60]!r}."
        raise RequestError(what, "Set it to a whole number. Use 0 for none.", field=RETRIES)
    return int(text)
