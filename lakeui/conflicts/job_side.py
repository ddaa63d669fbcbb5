"""A job compared with the commits and jobs that it does not see: a forecast for each pair."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.actions.codec import Action
from engine.commands.model import Command
from engine.conflict_facts import Verdict
from engine.conflicts.predict.forecast import FORECASTS, Forecast, ForecastSide, forecast
from engine.conflicts.predict.replay_history import RecordedTable
from engine.conflicts.predict.sample_table import TableSetting
from engine.errors import EngineError
from engine.schema.column_mapping import column_mapping_mode
from lakeui.catalog.command_tables import reads_itself
from lakeui.catalog.models import Commit
from lakeui.conflicts.assessment import build_setting
from lakeui.conflicts.statements.operations import Target, operation_of_commit, operations_of_job
from lakeui.jobs.models import Job


@dataclass(frozen=True)
class JobSide:
    """A job's side: its operations on its table, built once for all comparisons."""

    job: Job

    @cached_property
    def setting(self) -> TableSetting:
        return build_setting(self.job.table)

    @cached_property
    def target(self) -> Target:
        return Target.from_table(self.job.table)

    @cached_property
    def operations(self) -> tuple[ForecastSide, ...]:
        return operations_of_job(self.target, self.job.kind, self.job.parameters)

    @property
    def reads_itself(self) -> bool:
        """Whether a query or condition of its command names its own table."""
        try:
            command = Command.from_parameters(self.job.kind, self.job.parameters)
        except EngineError:
            return False
        return reads_itself(command, self.job.table)

    def forecast_with_commit(self, commit: Commit, actions: tuple[Action, ...] | None) -> Forecast:
        return self._forecast_with([operation_of_commit(commit, self.target, actions)])

    def forecast_with_job(self, kind: str, parameters: Any, table_id: int) -> Forecast:  # noqa: ANN401 - JSON
        """Forecast the conflict with a job that lands first; `table_id` is its own table."""
        is_own = table_id == self.job.table_id
        return self._forecast_with(operations_of_job(self.target, kind, parameters, is_own=is_own))

    def _forecast_with(self, theirs: Sequence[ForecastSide]) -> Forecast:
        """Return the worst forecast; a side that does nothing to the table never conflicts."""
        table = self.job.table
        columns = RecordedTable(
            table.name,
            self.target.schema,
            tuple(table.partition_columns),
            column_mapping_mode(table.properties),
        )
        forecasts = [
            forecast(self.setting, mine, other, columns)
            for mine in self.operations
            for other in theirs
        ]
        nothing = Forecast(Verdict.NEVER, "it does not change this table")
        return max(
            forecasts, key=lambda candidate: FORECASTS.index(candidate.verdict), default=nothing
        )
