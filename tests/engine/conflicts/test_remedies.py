"""Remedies: shown where they help, and hidden where the facts rule them out."""

import json
import re
import uuid
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from engine.conflict_facts import ConflictFacts, RemedyKind, Rule, Subclass
from engine.conflicts.decide.checker import CHECKS, RULE_OF_CODE, remedies_of_report
from engine.conflicts.eligibility import TableFacts
from engine.conflicts.explain.remedies import OF_FILES, OF_NO_CHECK, remedies_for
from engine.conflicts.explain.remedy_table import TEXTS
from engine.conflicts.explain.situation import Situation
from engine.conflicts.predict.forecast import ForecastSide, first_conflict, forecast
from engine.conflicts.predict.sample_table import TableSetting
from engine.conflicts.predict.statements import Statement
from engine.conflicts.reads import READS_TARGET
from engine.errors import ConflictError
from engine.protocol.properties import SETTABLE_LEVELS, IsolationLevel
from engine.table import DeltaTable
from engine.vocabulary import StatementKind
from tests.engine.conflicts.real_pairs import LAYOUTS
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run
from tests.stateful.history import SCHEMA

K = RemedyKind
VECTORS_ON = TableFacts((), (), vectors=True, row_tracking=False, identity=False)
VECTORS_OFF = replace(VECTORS_ON, vectors=False)
PARTITIONED = replace(VECTORS_ON, partition_columns=("day", "country"))
CLUSTERED = replace(VECTORS_ON, clustering_columns=("id",))
FILES = {
    "rule": Rule.READ_FILE_REMOVED,
    "current_operation": "UPDATE",
    "winner_operation": "DELETE",
    "has_condition": True,
    "condition_columns": frozenset({"id"}),
    "compares_rows": True,
    "table": VECTORS_OFF,
}
COMPACTION = FILES | {"winner_operation": "OPTIMIZE"}
BEHIND_RESTORE = FILES | {"current_operation": "OPTIMIZE", "winner_operation": "RESTORE"}


def kinds(**known: object) -> list[RemedyKind]:
    """Return the kinds of remedies that help in a situation."""
    return [remedy.kind for remedy in remedies_for(RemedyKind, Situation(**known))]


def texts(kind: RemedyKind, **known: object) -> str:
    [remedy] = [r for r in remedies_for(OF_FILES, Situation(**known)) if r.kind is kind]
    return f"{remedy.action} {remedy.reason}"


SHOWN_AND_NOT = {
    K.CREATE_FIRST: [
        ({"subclass": Subclass.WRITE_TO_EMPTY_DIRECTORY}, {"subclass": Subclass.CONFLICTING_COMMIT}),
        ({"creates_table": True}, {"creates_table": False}),
    ],
    K.READ_AGAIN: [({"source_is_fixed": True}, {})],
    K.RETRY: [({"can_retry": True}, {"can_retry": False})],
    K.RESTART_STREAM: [({"is_stream": True}, {"is_stream": False})],
    K.IDENTITY: [
        (
            {"rule": Rule.METADATA_CHANGED, "table": TableFacts(identity=True)},
            {"rule": Rule.METADATA_CHANGED, "table": TableFacts(identity=False)},
        ),
        (
            FILES | {"table": replace(VECTORS_ON, identity=True)},
            FILES | {"table": VECTORS_ON},
        ),
        (
            {"rule": Rule.METADATA_CHANGED, "winner_operation": "WRITE", "table": TableFacts(identity=True)},
            {"rule": Rule.METADATA_CHANGED, "winner_operation": "ADD COLUMNS", "table": TableFacts(identity=True)},
        ),
        (
            {"rule": Rule.METADATA_CHANGED, "winner_operation": "MERGE", "table": TableFacts(identity=True)},
            {"rule": Rule.METADATA_CHANGED, "winner_operation": "REPLACE TABLE", "table": TableFacts(identity=True)},
        ),
    ],
    K.QUIET_WINDOW: [
        ({"rule": Rule.METADATA_CHANGED}, {"rule": Rule.DATA_ADDED}),
        ({"subclass": Subclass.PROTOCOL_CHANGE}, {"subclass": Subclass.WITHOUT_HINT}),
        ({"rule": Rule.PROTOCOL_CHANGED}, {"rule": Rule.PROTOCOL_CHANGED, "creates_table": True}),
        (
            {"rule": Rule.PROTOCOL_CHANGED, "current_operation": "REPLACE TABLE"},
            {"rule": Rule.PROTOCOL_CHANGED, "current_operation": "REPLACE TABLE", "winner_operation": "CLONE"},
        ),
    ],
    K.ALLOW_REORDERING: [(FILES | {"level_decides": True}, FILES)],
    K.ALONE: [
        (FILES | {"current_operation": "RESTORE"}, FILES),
        (FILES | {"current_operation": "TRUNCATE", "has_condition": False}, FILES | {"has_condition": False}),
        ({"subclass": Subclass.WHOLE_TABLE_REPLACE}, {"subclass": Subclass.WITHOUT_HINT}),
    ],
    K.ROW_TRACKING: [
        (COMPACTION | {"table": CLUSTERED}, COMPACTION | {"table": replace(CLUSTERED, row_tracking=True)}),
        (COMPACTION | {"table": VECTORS_ON}, FILES | {"table": VECTORS_ON}),
        (COMPACTION | {"table": CLUSTERED}, COMPACTION | {"table": VECTORS_OFF}),
        (COMPACTION | {"table": CLUSTERED}, BEHIND_RESTORE | {"table": CLUSTERED}),
        (COMPACTION | {"table": CLUSTERED}, COMPACTION | {"table": replace(CLUSTERED, iceberg=True)}),
    ],
    K.ONE_SCHEDULE: [(COMPACTION | {"current_operation": "OPTIMIZE"}, COMPACTION)],
    K.MORE_TIME: [({"subclass": Subclass.ALLOTTED_TIME_EXCEEDED}, {"subclass": Subclass.ROW_LEVEL_CHANGES})],
    K.DIFFERENT_ROWS: [
        ({"subclass": Subclass.ROW_LEVEL_CHANGES}, {"subclass": Subclass.ALLOTTED_TIME_EXCEEDED}),
        (
            {"subclass": Subclass.ROW_LEVEL_CHANGES},
            {"subclass": Subclass.ROW_LEVEL_CHANGES, "level_decides": True},
        ),
    ],
    K.RENAME_COLUMN: [({"subclass": Subclass.CHANGE_TYPE_COLUMN}, {"subclass": Subclass.PREDICATES_NEED_REWRITE})],
    K.REWRITE_CONDITION: [({"subclass": Subclass.PREDICATES_NEED_REWRITE}, {"subclass": Subclass.CHANGE_TYPE_COLUMN})],
    K.ADD_CONDITION: [
        (FILES | {"has_condition": False}, FILES),
        ({"subclass": Subclass.EMPTY_READ_PREDICATES}, {"subclass": Subclass.WITHOUT_HINT}),
        (
            FILES | {"has_condition": False},
            FILES | {"has_condition": False, "obstacle": "its condition contains a subquery"},
        ),
        (FILES | {"has_condition": False}, FILES | {"has_condition": False, "current_operation": "TRUNCATE"}),
    ],
    K.PARTITION_PREDICATE: [
        (FILES | {"table": PARTITIONED}, FILES),
        (
            FILES | {"table": PARTITIONED, "pinned_columns": frozenset({"day"})},
            FILES | {"table": PARTITIONED, "pinned_columns": frozenset({"day", "country"})},
        ),
        (FILES | {"table": PARTITIONED}, FILES | {"table": PARTITIONED, "has_condition": False}),
        ({"subclass": Subclass.WITH_PARTITION_HINT}, {"subclass": Subclass.WITHOUT_HINT}),
        (FILES | {"table": PARTITIONED}, FILES | {"table": PARTITIONED, "current_operation": "OPTIMIZE"}),
    ],
    K.DELETION_VECTORS: [
        (FILES, FILES | {"table": VECTORS_ON}),
        (FILES | {"level_decides": True}, FILES | {"level_decides": True, "reads_appended_rows": True}),
        ({}, {"subclass": Subclass.ROW_LEVEL_CHANGES}),
        ({}, {"subclass": Subclass.ALLOTTED_TIME_EXCEEDED}),
        (FILES, FILES | {"table": replace(PARTITIONED, vectors=False)}),
        (COMPACTION | {"table": replace(PARTITIONED, vectors=False)}, COMPACTION | {"table": PARTITIONED}),
        (FILES, FILES | {"has_condition": False}),
        (FILES, FILES | {"winner_operation": "RESTORE"}),
        (FILES, FILES | {"winner_operation": "TRUNCATE"}),
        (FILES | {"current_operation": "WRITE"}, FILES | {"current_operation": "STREAMING UPDATE"}),
        (COMPACTION, BEHIND_RESTORE),
        (FILES, FILES | {"table": replace(VECTORS_OFF, iceberg=True)}),
        (COMPACTION, COMPACTION | {"table": replace(VECTORS_OFF, iceberg=True)}),
    ],
    K.PLAIN_CONDITION: [
        (
            FILES | {"obstacle": "its condition uses struct, array or map values", "table": VECTORS_ON},
            FILES | {"table": VECTORS_ON},
        ),
        (
            FILES | {"obstacle": "its condition is not deterministic", "has_condition": False},
            FILES | {"obstacle": READS_TARGET, "has_condition": False},
        ),
        (
            FILES | {"obstacle": "its condition contains a subquery"},
            FILES | {"obstacle": "its condition contains a subquery", "table": PARTITIONED},
        ),
    ],
    K.SEPARATE_SOURCE: [
        (FILES | {"obstacle": READS_TARGET}, FILES | {"obstacle": "its condition contains a subquery"}),
        (FILES | {"obstacle": READS_TARGET}, FILES | {"obstacle": READS_TARGET, "table": PARTITIONED}),
    ],
    K.CLUSTER_INSTEAD: [
        (FILES | {"table": PARTITIONED}, FILES),
        (FILES | {"table": PARTITIONED}, FILES | {"table": PARTITIONED, "has_condition": False}),
        (FILES | {"table": PARTITIONED}, COMPACTION | {"table": PARTITIONED}),
    ],
    K.ROW_LEVEL_ENGINE: [
        (FILES | {"compares_rows": False}, FILES),
        (FILES | {"compares_rows": False}, FILES | {"compares_rows": None}),
        (FILES | {"compares_rows": False}, FILES | {"compares_rows": False, "has_condition": False}),
    ],
    K.SAME_ENGINES: [
        (FILES | {"table": VECTORS_ON, "is_untraced": True}, FILES | {"is_untraced": True}),
        (
            FILES | {"table": VECTORS_ON, "is_untraced": True},
            FILES | {"table": VECTORS_ON, "is_untraced": True, "winner_operation": "RESTORE"},
        ),
    ],
    K.LAYOUT: [
        (FILES, FILES | {"has_condition": False}),
        (FILES, FILES | {"table": PARTITIONED}),
        (FILES, FILES | {"table": CLUSTERED}),
        (FILES | {"table": replace(CLUSTERED, clustering_columns=("other",))}, FILES | {"table": CLUSTERED}),
        ({}, {"subclass": Subclass.WHOLE_TABLE_READ}),
        (FILES, FILES | {"subclass": Subclass.ROW_LEVEL_CHANGES}),
    ],
    K.OFF_FRESH_DATA: [(FILES | {"ends_exemption": True}, FILES)],
    K.COMPACT_IN_QUIET: [(COMPACTION, COMPACTION | {"current_operation": "OPTIMIZE"}), (COMPACTION, FILES)],
}  # fmt: skip
ONLY_OF_THEIR_CHECK = {K.FEWER_COMMITS, K.ONE_WRITER, K.OWN_CHECKPOINT, K.APART_IN_TIME}
CASES = [
    pytest.param(kind, shown, ruled_out, id=f"{kind}-{number}")
    for kind, pairs in SHOWN_AND_NOT.items()
    for number, (shown, ruled_out) in enumerate(pairs)
]


@pytest.mark.parametrize(("kind", "shown", "ruled_out"), CASES)
def test_a_remedy_is_shown_where_it_helps_and_not_where_the_facts_rule_it_out(
    kind: RemedyKind, shown: dict[str, object], ruled_out: dict[str, object]
):
    assert kind in kinds(**shown)
    assert kind not in kinds(**ruled_out)


def test_every_remedy_has_words_and_a_case():
    assert set(TEXTS) == set(RemedyKind)
    assert set(SHOWN_AND_NOT) == set(RemedyKind) - ONLY_OF_THEIR_CHECK
    for text in TEXTS.values():
        assert text.action
        assert text.reason.endswith(".")
        assert text.when
        assert not re.search(r"\bSerializable", text.action)


def test_every_remedy_belongs_to_a_check_or_a_code():
    of_checks = {kind for check in CHECKS for kind in check.remedies}
    of_codes = {kind for kinds in OF_NO_CHECK.values() for kind in kinds}
    assert of_checks | of_codes | {K.RETRY, K.RESTART_STREAM} == set(RemedyKind)


CODES = (*RULE_OF_CODE, *OF_NO_CHECK)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("subclass", [None, *Subclass])
def test_every_code_and_sub_class_is_answered_without_contradiction(
    code: str, subclass: Subclass | None
):
    rule = RULE_OF_CODE.get(code)
    for is_stream, table in product((False, True), (VECTORS_ON, VECTORS_OFF, TableFacts())):
        can_retry = rule is not Rule.APPLICATION_COMMITTED
        situation = Situation(
            rule=rule, subclass=subclass, is_stream=is_stream, can_retry=can_retry, table=table
        )
        shown = [remedy.kind for remedy in remedies_of_report(code, situation)]
        assert shown
        assert len(set(shown)) == len(shown)
        assert (K.RETRY in shown or K.RESTART_STREAM in shown) == can_retry
        if table.vectors or subclass in (
            Subclass.ROW_LEVEL_CHANGES,
            Subclass.ALLOTTED_TIME_EXCEEDED,
        ):
            assert K.DELETION_VECTORS not in shown
        if subclass in (Subclass.EMPTY_READ_PREDICATES, Subclass.WHOLE_TABLE_READ):
            assert not {K.LAYOUT, K.PARTITION_PREDICATE} & set(shown)


PUBLISHED = json.loads(Path(__file__).with_name("conflict_codes.json").read_text("utf-8"))


def test_every_published_exception_has_its_code_and_every_code_its_remedies():
    raised = {check.error.__name__: check.error.code for check in CHECKS}
    assert raised == PUBLISHED["exceptions"]
    assert {*PUBLISHED["exceptions"].values(), *PUBLISHED["other_codes"]} == set(CODES)
    assert {check.error.sqlstate for check in CHECKS} == {PUBLISHED["sqlstate"]}


def test_every_published_sub_class_is_known():
    assert set(PUBLISHED["subclasses"]) == {str(subclass) for subclass in Subclass}


def test_the_documentation_lists_every_remedy_as_it_reads():
    text = (Path(__file__).resolve().parents[3] / "docs" / "semantics.md").read_text("utf-8")
    section = text.partition("## What helps\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [f"| {text.action} | {text.when} |" for text in TEXTS.values()]


def test_a_write_to_an_empty_directory_is_advised_to_create_the_table_first():
    empty = Situation(rule=Rule.PROTOCOL_CHANGED, subclass=Subclass.WRITE_TO_EMPTY_DIRECTORY)
    shown = [remedy.kind for remedy in remedies_of_report("DELTA_PROTOCOL_CHANGED", empty)]
    assert shown == [K.CREATE_FIRST, K.RETRY]


def test_only_the_partition_columns_without_a_value_are_suggested():
    facts = FILES | {"table": PARTITIONED, "pinned_columns": frozenset({"day"})}
    text = texts(K.PARTITION_PREDICATE, **facts)
    assert "`country = '…'`" in text
    assert "day" not in text
    with_values = facts | {"partitions": ("day=2026-11-02/country=DE",)}
    assert "`country = '…'`" in texts(K.PARTITION_PREDICATE, **with_values)
    with_values |= {"compares_rows": None}
    assert "`country = 'DE'`" in texts(K.PARTITION_PREDICATE, **with_values)


def test_obstacles_to_row_level_decisions_are_named():
    facts = FILES | {"obstacle": "its condition contains a subquery"}
    assert (
        "The conflict is decided at file level because its condition contains a subquery."
        in texts(K.PLAIN_CONDITION, **facts)
    )


# The table after the advised changes, under the same two statements on different rows.

CHANGES = (StatementKind.UPDATE, StatementKind.DELETE, StatementKind.MERGE)
OTHERS = (StatementKind.OPTIMIZE, StatementKind.ZORDER, StatementKind.INSERT)
PAIRS = [
    (mine, theirs)
    for mine, theirs in product((*CHANGES, *OTHERS), repeat=2)
    if {mine, theirs} & set(CHANGES) or StatementKind.INSERT not in (mine, theirs)
]


def _apply_advice(shown: set[RemedyKind], setting: TableSetting) -> TableSetting:
    """Return the table's setting after all advised changes."""
    if K.CLUSTER_INSTEAD in shown:
        setting = replace(setting, partitioned=False, clustered=True)
    if K.DELETION_VECTORS in shown:
        setting = replace(setting, vectors=True)
    if K.ROW_TRACKING in shown:
        setting = replace(setting, row_tracking=True)
    if K.IDENTITY in shown:
        setting = replace(setting, identity=False)
    return setting


def _find_neighbor_conflict(
    setting: TableSetting, mine: StatementKind, theirs: StatementKind
) -> ConflictError | None:
    """Return the conflict of two statements on different rows of one file."""
    date = "d1" if setting.partitioned else None
    return first_conflict(Statement(mine, 1, date), (Statement(theirs, 2, date),), setting)


@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("level", SETTABLE_LEVELS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_following_the_advice_ends_the_conflict(layout: str, level: IsolationLevel, identity: bool):
    """The statements touch different rows. The advice is followed step by step, including later advice."""
    start = TableSetting(level=level, identity=identity, **LAYOUTS[layout])
    for mine, theirs in PAIRS:
        setting, advised = start, set[RemedyKind]()
        for _ in range(4):
            error = _find_neighbor_conflict(setting, mine, theirs)
            if error is None:
                break
            advised = {remedy.kind for remedy in error.conflict.remedies}
            changed = _apply_advice(advised, setting)
            if changed == setting:
                break
            setting = changed
        else:
            pytest.fail(f"{mine} after {theirs} is advised without end")
        error = _find_neighbor_conflict(setting, mine, theirs)
        if error is not None:
            told = forecast(setting, ForecastSide(kind=mine), ForecastSide(kind=theirs))
            assert not advised & {K.DELETION_VECTORS, K.ROW_TRACKING, K.CLUSTER_INSTEAD}, told
            assert advised, f"{mine} after {theirs}: {told}"


@pytest.mark.parametrize("level", SETTABLE_LEVELS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_advice_names_a_change_that_would_end_the_conflict(layout: str, level: IsolationLevel):
    setting = TableSetting(level=level, **LAYOUTS[layout])
    for mine, theirs in PAIRS:
        error = _find_neighbor_conflict(setting, mine, theirs)
        if error is None:
            continue
        shown = {remedy.kind for remedy in error.conflict.remedies}
        for kind in (K.DELETION_VECTORS, K.ROW_TRACKING):
            helps = _find_neighbor_conflict(_apply_advice({kind}, setting), mine, theirs) is None
            assert not helps or kind in shown, f"{kind} helps {mine} after {theirs}: {shown}"


# Advice given to real transactions.

ROWS = tuple(("a", x) for x in range(1, 9))


def _table(partitioned: bool = False, **properties: str) -> DeltaTable:
    named = {f"delta.{name}": value for name, value in properties.items()}
    table = DeltaTable.create(
        f"memory://remedies/{uuid.uuid4()}",
        SCHEMA,
        partition_columns=["part"] if partitioned else [],
        properties=named,
    )
    _do(table, c.Append(1, ROWS))
    return table


def _do(table: DeltaTable, command: c.Command) -> None:
    running = run(command, table, stats=True)
    running.txn.commit(running.operation)


def _conflict(table: DeltaTable, mine: c.Command, theirs: c.Command) -> ConflictFacts:
    running = run(mine, table, stats=True)
    _do(table, theirs)
    with pytest.raises(ConflictError) as raised:
        running.txn.commit(running.operation)
    return raised.value.conflict


def test_an_aborted_update_of_a_table_without_vectors_is_advised_to_enable_them():
    table = _table(enableDeletionVectors="false")
    facts = _conflict(table, c.Update(2, c.Range(2, 3), 2), c.Update(3, c.Range(4, 5), 4))
    assert [remedy.kind for remedy in facts.remedies][:2] == [K.DELETION_VECTORS, K.LAYOUT]


def test_writes_of_one_row_are_advised_to_change_different_rows_and_not_to_enable_vectors():
    facts = _conflict(
        _table(), c.Delete(2, c.Range(2, 4), promise=False), c.Delete(3, c.Range(3, 5))
    )
    assert [remedy.kind for remedy in facts.remedies] == [K.DIFFERENT_ROWS]


def test_a_compaction_on_a_table_without_vectors_is_advised_to_enable_them():
    table = _table(enableDeletionVectors="false")
    _do(table, c.Append(2, ROWS))
    facts = _conflict(table, c.Delete(3, c.Range(2, 3)), c.Optimize(4, (0, 1)))
    shown = [remedy.kind for remedy in facts.remedies]
    assert shown == [K.DELETION_VECTORS, K.COMPACT_IN_QUIET]


def test_a_truncate_is_advised_to_run_alone():
    facts = _conflict(_table(), c.Truncate(2), c.Delete(3, c.Range(3, 5)))
    assert facts.remedies[0].kind is K.ALONE
    assert K.LAYOUT not in {remedy.kind for remedy in facts.remedies}


def test_the_loser_of_a_race_for_a_new_table_is_advised_to_create_it_first():
    create = Statement(StatementKind.CREATE)
    error = first_conflict(create, (create,), TableSetting(SETTABLE_LEVELS[0], vectors=True))
    assert error is not None
    assert [remedy.kind for remedy in error.conflict.remedies] == [K.CREATE_FIRST]
    assert "A retry cannot succeed: create the table before its writers start" in str(error)


@pytest.mark.parametrize(
    ("operation", "condition", "is_told"),
    [
        ("DELETE", "x > 3", True),
        ("DELETE", "part = 'a' AND x > 3", False),
        ("DELETE", "part >= 'a' AND part <= 'c'", False),
        ("DELETE", "part = 'a' OR x > 3", True),
        ("MERGE", "part >= 'a' AND part <= 'c'", True),
        ("MERGE", "part = 'a'", False),
        ("MERGE", "part IN ('a', 'b')", False),
    ],
)
def test_a_statement_that_names_its_partition_is_not_advised_to(
    operation: str, condition: str, is_told: bool
):
    """The bounds of a source narrow the read of a MERGE; literals narrow it more, unless they are equal."""
    table = _table(partitioned=True)
    txn = table.start_transaction()
    txn.read_where(condition)
    stage = run(c.Append(2, (("a", 9),)), table, stats=True)
    txn.stage(*stage.staged)
    _do(table, c.Delete(3, c.Range(4, 6)))
    with pytest.raises(ConflictError) as raised:
        txn.commit(operation)
    shown = [remedy.kind for remedy in raised.value.conflict.remedies]
    assert (K.PARTITION_PREDICATE in shown) == is_told
    assert K.CLUSTER_INSTEAD in shown
