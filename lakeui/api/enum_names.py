"""Names of enums in the OpenAPI document, one for each list of choices."""

ENUM_NAMES = {
    "KeyKindEnum": "lakeui.catalog.models.TableKey.Kind",
    "AlertChannelKindEnum": "lakeui.monitoring.models.AlertChannel.Kind",
    "ConflictKindEnum": "lakeui.conflicts.models.Conflict.Kind",
    "StatementKindEnum": "lakeui.conflicts.statements.text.KINDS",
    "CheckNameEnum": "lakeui.monitoring.conditions.Condition",
    "StateEnum": "lakeui.jobs.models.Job.State",
    "RepeatedStateEnum": "lakeui.conflicts.filters.STATES",
    "RuleEnum": "engine.conflict_facts.Rule",
    "WriteOutcomeEnum": "lakeui.conflicts.replay.overlaps.WriteOutcome",
    "WhatIfVerdictEnum": "engine.conflicts.predict.record_replay.JUDGED",
    "MatrixVerdictEnum": "engine.conflicts.predict.forecast.MATRIX_VERDICTS",
    "ForecastEnum": "engine.conflicts.predict.forecast.FORECASTS",
    "StepResultEnum": "lakeui.conflicts.lanes.path.RESULTS",
    "OverlapVerdictEnum": "lakeui.conflicts.isolation.overlaps.ENDS",
}
