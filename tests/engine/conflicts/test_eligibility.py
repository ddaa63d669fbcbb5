"""Eligibility of commands for row-level concurrency, by runtime."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from engine.actions.table import Metadata, Protocol
from engine.conflicts.eligibility import (
    PREVIEW_SETTING,
    Eligibility,
    runtime_verdicts,
    table_eligibility,
)
from engine.schema.types import LONG, StructField, StructType

PLAIN = StructType((StructField("x", LONG),))
IDENTITY = StructType((StructField("x", LONG, metadata={"delta.identity.start": 1}),))


def _eligibility(
    *,
    partitions: tuple[str, ...] = (),
    clusters: tuple[str, ...] = (),
    supported: bool = True,
    setting: str | None = "true",
    schema: StructType = PLAIN,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> Eligibility:
    configuration = dict(properties)
    if setting is not None:
        configuration["delta.enableDeletionVectors"] = setting
    metadata = Metadata(
        id="t",
        schema_string=schema.to_json(),
        partition_columns=list(partitions),
        configuration=configuration,
    )
    features = ["deletionVectors"] if supported else []
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=features,
        writer_features=features,
    )
    return table_eligibility(metadata, protocol, clusters)


@pytest.mark.parametrize(
    ("table", "eligible", "traces"),
    [
        (_eligibility(), True, True),
        (_eligibility(setting=None), False, False),
        (_eligibility(setting="false"), False, False),
        (_eligibility(supported=False), False, False),
        (_eligibility(partitions=("x",)), False, True),
        (_eligibility(clusters=("x",)), True, True),
        (_eligibility(clusters=("x",), setting=None), False, False),
        (_eligibility(clusters=("x",), setting="false"), False, False),
        (_eligibility(clusters=("x",), supported=False), False, False),
        (_eligibility(schema=IDENTITY), False, True),
    ],
)
def test_eligibility(table: Eligibility, eligible: bool, traces: bool):
    assert table.eligible is eligible
    assert (table.obstacle is None) is eligible
    assert table.traces_moves is traces
    assert table.traces_order is False, "only row ids tell where rows went that were ordered anew"


def test_row_tracking_follows_reordered_rows():
    tracked = {"delta.enableRowTracking": "true"}
    assert _eligibility(clusters=("x",), properties=tracked).traces_order
    assert _eligibility(properties=tracked).traces_order
    assert not _eligibility(clusters=("x",), setting=None, properties=tracked).traces_order


def test_every_failed_condition_names_its_evidence_and_its_fix():
    table = _eligibility(partitions=("x",), supported=False, setting=None, schema=IDENTITY)
    failing = [condition for condition in table.conditions if not condition.holds]
    assert len(failing) == 4
    assert all(step.evidence and step.fix for step in failing)
    assert table.obstacle == "the table is partitioned by x"


def _takes_part(table: Eligibility, *, clustered: bool) -> list[bool]:
    return [
        runtime_verdict.takes_part
        for runtime_verdict in runtime_verdicts(table, clustered=clustered)
    ]


def test_runtimes_differ_by_their_requirements():
    assert _takes_part(_eligibility(), clustered=False) == [True, True, True, True, False, False]
    clustered = _eligibility(clusters=("x",))
    assert _takes_part(clustered, clustered=True) == [True, True, True, True, True, False]
    bare = _eligibility(clusters=("x",), setting=None)
    assert _takes_part(bare, clustered=True) == [False] * 6
    assert _takes_part(_eligibility(partitions=("x",)), clustered=False) == [False] * 6


def test_the_preview_setting_is_named_where_it_is_needed():
    verdicts = runtime_verdicts(_eligibility(), clustered=False)
    assert PREVIEW_SETTING in verdicts[3].reason
    assert all(verdict.reason for verdict in verdicts)
