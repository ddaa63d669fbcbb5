"""Tests of dbt-tests-adapter that dbt-spark's own suite leaves out, on format delta.

`tests/clients.py` copies them to dbt-spark's own tests. `dbt docs generate` is tested with the jaffle
shop: in a session of many tests it fails on temporary views that dbt-spark leaves behind.
"""

from importlib import import_module
from typing import Any

import pytest

DELTA = {kind: {"+file_format": "delta"} for kind in ("models", "seeds", "snapshots")}
_CASES = {
    "aliases.test_aliases": ("BaseAliases", "BaseAliasErrors", "BaseSameAliasDifferentSchemas"),
    "basic.test_table_materialization": ("BaseTableMaterialization",),
    "basic.test_validate_connection": ("BaseValidateConnection",),
    "caching.test_caching": (
        "BaseCachingLowercaseModel",
        "BaseCachingSelectedSchemaOnly",
        "BaseNoPopulateCache",
    ),
    "ephemeral.test_ephemeral": (
        "BaseEphemeralErrorHandling",
        "BaseEphemeralMulti",
        "BaseEphemeralNested",
    ),
    "relations.test_changing_relation_type": ("BaseChangeRelationTypeValidator",),
    "relations.test_dropping_schema_named": ("BaseDropSchemaNamed",),
    "simple_seed.test_seed": (
        "BaseBasicSeedTests",
        "BaseSeedConfigFullRefreshOff",
        "BaseSeedConfigFullRefreshOn",
        "BaseSeedCustomSchema",
        "BaseSeedParsing",
        "BaseSeedSpecificFormats",
        "BaseSeedWithEmptyDelimiter",
        "BaseSeedWithUniqueDelimiter",
        "BaseSeedWithWrongDelimiter",
        "BaseSimpleSeedEnabledViaConfig",
        "BaseSimpleSeedWithBOM",
        "BaseTestEmptySeed",
    ),
    "simple_snapshot.new_record_check_mode": ("BaseSnapshotNewRecordCheckMode",),
    "simple_snapshot.new_record_dbt_valid_to_current": ("BaseSnapshotNewRecordDbtValidToCurrent",),
    "simple_snapshot.new_record_timestamp_mode": ("BaseSnapshotNewRecordTimestampMode",),
    "simple_snapshot.test_ephemeral_snapshot_hard_deletes": (
        "BaseSnapshotEphemeralHardDeletes",
        "BaseSnapshotNewColumnSpecificCheckCols",
        "BaseSnapshotNewColumnTimestampStrategy",
        "BaseSnapshotNewColumnWithDeletes",
    ),
    "simple_snapshot.test_snapshot": ("BaseSimpleSnapshot", "BaseSnapshotCheck"),
    "simple_snapshot.test_various_configs": (
        "BaseSnapshotColumnNames",
        "BaseSnapshotDbtValidToCurrent",
        "BaseSnapshotInvalidColumnNames",
        "BaseSnapshotMultiUniqueKey",
    ),
}
"""Module and base classes of dbt-tests-adapter."""


class OnDelta:
    """Tables, seeds and snapshots of a project on format delta."""

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return DELTA


def _subclasses() -> dict[str, Any]:
    """Return a test class on format delta for each case."""
    made = {}
    for module, bases in _CASES.items():
        for base in bases:
            name = f"Test{base.removeprefix('Base')}OnDelta"
            original = getattr(import_module(f"dbt.tests.adapter.{module}"), base)
            made[name] = type(name, (OnDelta, original), {})
    return made


globals().update(_subclasses())
