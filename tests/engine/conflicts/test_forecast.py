"""Forecasts for two operations, compared with real transactions."""

from collections.abc import Iterator
from dataclasses import replace as replace_setting
from itertools import product

import pytest
from msgspec.structs import replace

from engine.actions.files import AddFile, RemoveFile
from engine.conflict_facts import Verdict
from engine.conflicts.predict.forecast import (
    GROUPS,
    Forecast,
    ForecastSide,
    conflict_matrix,
    forecast,
)
from engine.conflicts.predict.replay_history import RecordedTable
from engine.conflicts.predict.sample_table import SCHEMA, TableSetting
from engine.conflicts.predict.statements import EFFECTS
from engine.errors import ConflictError
from engine.expressions.parse import parse_condition
from engine.expressions.traits import split_conjuncts
from engine.protocol.properties import IsolationLevel
from engine.vocabulary import StatementKind
from tests.engine.conflicts.real_pairs import KINDS, LAYOUTS, Pair, Place, happens
from tests.shares import pairs, share
from tests.stateful import commands as c

RELAXED, STRICT = IsolationLevel.WRITE_SERIALIZABLE, IsolationLevel.SERIALIZABLE
MINE = Place(6)
SAME_ROW, OTHER_ROW, OTHER_FILE = Place(6), Place(5), Place(1)
WHOLE = Place(6, whole_file=True)
CONFLICTS_AT = {
    Verdict.NEVER: set[Place](),
    Verdict.EXEMPT: set[Place](),
    Verdict.SAME_ROW: {SAME_ROW},
    Verdict.SAME_FILES: {SAME_ROW, OTHER_ROW},
    Verdict.ALWAYS: {SAME_ROW, OTHER_ROW, OTHER_FILE},
}
IN_EVERY_RUN = {  # the matrix goes over all of them
    ("plain", STRICT),
    ("deletion vectors", RELAXED),
}
IN_THE_MATRIX = tuple(kind for group in GROUPS.values() for kind in group)


def observe_conflicts(
    setting: TableSetting, current: StatementKind, winner: StatementKind, places: tuple[Place, ...]
) -> dict[Place, type[ConflictError]]:
    """Return the conflicts of `current` at its row, by the place of the winning commit."""
    errors = {place: happens(setting, (current, MINE), (winner, place)) for place in places}
    return {place: error for place, error in errors.items() if error is not None}


def _pairs(kinds: tuple[StatementKind, ...]) -> Iterator[tuple[StatementKind, StatementKind]]:
    return product(kinds, kinds)


def _check(told: Forecast, seen: dict[Place, type[ConflictError]], claim: str) -> None:
    places = {place for place in seen if place != WHOLE}
    assert places == CONFLICTS_AT[told.verdict], f"{claim}: {told}"
    assert {error.__name__ for error in seen.values()} <= set(told.exceptions), f"{claim}: {told}"
    assert bool(told.exceptions) == bool(seen), claim


@pytest.mark.parametrize(("layout", "level"), pairs(share(2, LAYOUTS), [RELAXED, STRICT]))
def test_the_matrix_equals_the_results_of_real_transactions(layout: str, level: IsolationLevel):
    """Every pair of statements at every place raises exactly the listed exceptions."""
    setting = TableSetting(level=level, **LAYOUTS[layout])
    raised: dict[tuple[str, str], set[str]] = {}
    group_of = {kind: name for name, kinds in GROUPS.items() for kind in kinds}
    for current, winner in _pairs(IN_THE_MATRIX):
        places = (SAME_ROW, OTHER_ROW, OTHER_FILE, WHOLE)
        seen = observe_conflicts(setting, current, winner, places)
        told = forecast(setting, ForecastSide(kind=current), ForecastSide(kind=winner))
        _check(told, seen, f"{current} after {winner}")
        names = {error.__name__ for error in seen.values()}
        raised.setdefault((group_of[current], group_of[winner]), set()).update(names)
    listed = {
        (cell.current, cell.winner): set(cell.exceptions) for cell in conflict_matrix(setting)
    }
    assert raised == listed


@pytest.mark.parametrize(
    ("layout", "level"),
    [
        pytest.param(*of, marks=[pytest.mark.stress] * (of not in IN_EVERY_RUN))
        for of in product(LAYOUTS, (RELAXED, STRICT))
    ],
)
def test_other_statements_are_forecast_as_they_turn_out(layout: str, level: IsolationLevel):
    setting = TableSetting(level=level, **LAYOUTS[layout])
    for current, winner in _pairs(KINDS):
        if {current, winner} <= set(IN_THE_MATRIX) or current is StatementKind.UPGRADE:
            continue  # an upgrade is several commits, see below
        places = (SAME_ROW, OTHER_ROW, OTHER_FILE)
        told = forecast(setting, ForecastSide(kind=current), ForecastSide(kind=winner))
        seen = observe_conflicts(setting, current, winner, places)
        if winner is StatementKind.RESTORE:  # it takes file B back, wherever the other is
            elsewhere = happens(setting, (current, OTHER_FILE), (winner, SAME_ROW))
            seen = {place: error for place, error in seen.items() if place != OTHER_FILE}
            seen |= {OTHER_FILE: elsewhere} if elsewhere else {}
        _check(told, seen, f"{current} after {winner}")


DELETE_PAIRS = {
    "DELETE": (
        ForecastSide(kind=StatementKind.DELETE),
        lambda n: c.Delete(n, MINE.range, promise=True),
    ),
    "MERGE that only deletes": (
        ForecastSide(kind=StatementKind.MERGE, deletes_only=True),
        lambda n: c.Merge(n, MINE.rows, matched="delete", inserts=False),
    ),
    "MERGE that updates": (
        ForecastSide(kind=StatementKind.MERGE),
        lambda n: c.Merge(n, MINE.rows, inserts=False),
    ),
    "UPDATE": (
        ForecastSide(kind=StatementKind.UPDATE),
        lambda n: c.Update(n, MINE.range, MINE.x, promise=True),
    ),
}
"""Commands that take one row, by what a forecast knows of them."""


@pytest.mark.parametrize("level", [RELAXED, STRICT])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_commands_that_share_rows_are_forecast_as_they_are_decided(
    layout: str, level: IsolationLevel
):
    """Of two commands that delete the same row, only a DELETE may come second."""
    setting = TableSetting(level=level, **LAYOUTS[layout])
    for (mine, current), (theirs, winner) in product(DELETE_PAIRS.items(), DELETE_PAIRS.items()):
        pair = Pair.open_commands(setting, current[1](2), winner[1](3))
        pair.winner_commits()
        conflict = pair.current_commits()
        told = forecast(setting, current[0], winner[0])
        said = SAME_ROW in CONFLICTS_AT[told.verdict]
        assert said == (conflict is not None), f"{mine} after {theirs}: {told}"


@pytest.mark.parametrize("kind", [StatementKind.DELETE, StatementKind.UPDATE, StatementKind.MERGE])
def test_two_changes_by_files_raise_either_of_two_exceptions(kind: StatementKind):
    """A rewrite of the same or other rows adds a file that may match; a rewrite of the whole file may not."""
    setting = TableSetting(level=RELAXED, vectors=False)
    cells = {(cell.current, cell.winner): cell.exceptions for cell in conflict_matrix(setting)}
    [changes] = [name for name, kinds in GROUPS.items() if kind in kinds]
    both = ("ConcurrentAppendException", "ConcurrentDeleteReadException")
    assert cells[changes, changes] == both
    told = forecast(setting, ForecastSide(kind=kind), ForecastSide(kind=StatementKind.DELETE))
    seen = observe_conflicts(setting, kind, StatementKind.DELETE, (OTHER_ROW, WHOLE))
    assert {error.__name__ for error in seen.values()} == set(told.exceptions) == set(both)


def test_every_kind_of_statement_is_played_or_named_here():
    """Some pairs cannot be played in every place: a race for version 0, a purge, a backfill of row ids."""
    unplayed = {StatementKind.CREATE, StatementKind.PURGE, StatementKind.RESTATE}
    assert set(EFFECTS) == set(StatementKind)
    assert set(KINDS) == set(StatementKind) - unplayed
    assert StatementKind.PURGE.moves_rows


PLAIN = TableSetting(RELAXED, vectors=True)
BY_FILES = TableSetting(RELAXED, vectors=False, partitioned=True)
T = RecordedTable("t", SCHEMA, ("date",))


def where(text: str, kind: StatementKind = StatementKind.DELETE, **known: object) -> ForecastSide:
    parts = tuple(split_conjuncts(parse_condition(text, SCHEMA)))
    return ForecastSide(kind=kind, conditions=parts, **known)


@pytest.mark.parametrize(
    ("setting", "mine", "theirs", "verdict"),
    [
        (PLAIN, "id = 1", where("id = 2"), Verdict.NEVER),
        (PLAIN, "id = 1", where("id < 2"), Verdict.NEVER),
        (BY_FILES, "date = 'a'", where("date = 'b'"), Verdict.NEVER),
        (BY_FILES, "date = 'a' AND id = 1", where("date = 'a' AND id = 2"), Verdict.SAME_FILES),
        (PLAIN, "id = 1", where("id = 2", StatementKind.UPDATE), Verdict.SAME_ROW),
        (PLAIN, "id = 1", where("id = 2", StatementKind.UPDATE, assigns=frozenset({"date"})),
         Verdict.NEVER),
        (PLAIN, "id = 1", where("id = 2", StatementKind.UPDATE, assigns=frozenset({"id"})),
         Verdict.SAME_ROW),
        (PLAIN, "id = 1", where("id = 2", StatementKind.MERGE), Verdict.SAME_ROW),
        (BY_FILES, "date = 'a'", where("date = 'b'", StatementKind.MERGE), Verdict.SAME_FILES),
        (PLAIN, "id = 1", ForecastSide(kind=StatementKind.DELETE, conditions=()), Verdict.NEVER),
        (PLAIN, "id = 1", ForecastSide(kind=StatementKind.UPDATE, conditions=()), Verdict.ALWAYS),
    ],
)  # fmt: skip
def test_conditions_narrow_a_forecast_only_where_they_prove_it(setting, mine, theirs, verdict):
    """An UPDATE that sets a column to the other's filter value may write a row that the other has to read."""
    assert forecast(setting, where(mine), theirs, T).verdict is verdict


def _file(low: int, high: int, **fields: object) -> AddFile:
    stats = f'{{"numRecords":2,"minValues":{{"id":{low}}},"maxValues":{{"id":{high}}}}}'
    values = {"partition_values": {"date": "a"}, "size": 1, "modification_time": 1} | fields
    return AddFile(path=f"{low}", data_change=True, stats=stats, **values)


def test_files_that_cannot_hold_a_row_of_the_condition_prove_that_two_pass():
    far, near = _file(10, 20), _file(0, 5)
    gone = RemoveFile(path="x", data_change=True)
    other = StatementKind.UPDATE
    for actions, verdict in (((far,), Verdict.NEVER), ((far, near), Verdict.SAME_FILES)):
        winner = ForecastSide(kind=other, actions=actions)
        assert forecast(BY_FILES, where("id = 1"), winner, T).verdict is verdict
    unsaid = ForecastSide(kind=other, actions=(far, gone))
    assert forecast(BY_FILES, where("id = 1"), unsaid, T).verdict is Verdict.SAME_FILES


def test_a_forecast_names_the_obstacle_to_row_level_resolution():
    mine = ForecastSide(kind=StatementKind.DELETE, obstacle="its condition is not deterministic")
    told = forecast(PLAIN, mine, ForecastSide(kind=StatementKind.UPDATE))
    assert (told.verdict, told.why) == (
        Verdict.SAME_FILES,
        "file level: its condition is not deterministic",
    )


def test_a_compaction_without_records_of_moved_rows_cannot_be_followed():
    mine = ForecastSide(kind=StatementKind.DELETE)
    foreign = ForecastSide(kind=StatementKind.OPTIMIZE, traced=False)
    assert forecast(PLAIN, mine, foreign).verdict is Verdict.SAME_FILES
    tracked = TableSetting(RELAXED, vectors=True, row_tracking=True)
    assert forecast(tracked, mine, foreign).verdict is Verdict.NEVER


def test_one_stream_twice_conflicts_and_two_streams_do_not():
    streams = [
        ForecastSide(kind=StatementKind.STREAM, application=name) for name in ("a", "a", "b")
    ]
    assert forecast(PLAIN, streams[0], streams[1]).exceptions == ("ConcurrentTransactionException",)
    assert forecast(PLAIN, streams[0], streams[2]).verdict is Verdict.NEVER


@pytest.mark.parametrize("change", ["changes_metadata", "changes_protocol"])
def test_any_change_of_schema_properties_or_protocol_stops_every_write(change):
    winner = ForecastSide(kind=StatementKind.MERGE, **{change: True})
    for kind in (StatementKind.INSERT, StatementKind.OPTIMIZE):
        assert forecast(PLAIN, ForecastSide(kind=kind), winner).verdict is Verdict.ALWAYS


def test_tables_with_identity_columns_refuse_concurrent_inserts():
    identity = TableSetting(RELAXED, vectors=True, identity=True)
    insert, delete = (
        ForecastSide(kind=StatementKind.INSERT),
        ForecastSide(kind=StatementKind.DELETE),
    )
    assert forecast(identity, insert, insert).exceptions == ("MetadataChangedException",)
    assert forecast(identity, delete, delete).verdict is Verdict.SAME_FILES


def _conflict_after_winner(pair: Pair) -> type[ConflictError] | None:
    pair.winner_commits()
    conflict = pair.current_commits()
    return None if conflict is None else type(conflict)


@pytest.mark.parametrize("layout", ["plain", "deletion vectors"])
def test_a_subquery_over_the_table_itself_reads_every_row(layout: str):
    setting = TableSetting(level=RELAXED, **LAYOUTS[layout])
    delete = StatementKind.DELETE
    pair = Pair.open(setting, (delete, MINE), (delete, OTHER_FILE))
    pair.current.txn.read_whole_table()
    told = forecast(
        setting, where("id = 6", reads_all=True), where("id = 1", StatementKind.DELETE), T
    )
    assert told.verdict is Verdict.ALWAYS
    assert _conflict_after_winner(pair).__name__ in told.exceptions


@pytest.mark.parametrize(
    ("layout", "verdict"), [("plain", Verdict.ALWAYS), ("deletion vectors", Verdict.SAME_ROW)]
)
def test_a_condition_that_rules_out_no_file_reads_every_file(layout: str, verdict: Verdict):
    setting = TableSetting(level=RELAXED, **LAYOUTS[layout])
    pair = Pair.open(setting, (StatementKind.MERGE, MINE), (StatementKind.DELETE, OTHER_FILE))
    pair.current.txn.read_where("x % 1000 = 6")
    mine = ForecastSide(kind=StatementKind.MERGE, opens_all=True)
    told = forecast(setting, mine, ForecastSide(kind=StatementKind.DELETE))
    assert told.verdict is verdict
    assert (_conflict_after_winner(pair) is not None) == (verdict is Verdict.ALWAYS)


def test_no_append_is_ordered_after_a_change_of_metadata():
    setting = TableSetting(level=RELAXED, vectors=False)
    pair = Pair.open(setting, (StatementKind.OVERWRITE, MINE), (StatementKind.INSERT, MINE))
    pair.current.txn.stage(pair.current.txn.snapshot.metadata)
    mine = ForecastSide(kind=StatementKind.OVERWRITE, changes_metadata=True)
    told = forecast(setting, mine, ForecastSide(kind=StatementKind.INSERT))
    assert told.verdict is Verdict.ALWAYS
    assert _conflict_after_winner(pair).__name__ in told.exceptions


def test_restated_row_ids_stop_operations_that_set_the_whole_table():
    setting = TableSetting(level=RELAXED, vectors=False)
    winner = ForecastSide(kind=StatementKind.RESTATE)
    for kind in (StatementKind.RESTORE, StatementKind.DELETE):
        pair = Pair.open(setting, (kind, MINE), (StatementKind.VACUUM, MINE))
        txn = pair.winner.txn
        stated = [replace(add, data_change=False) for add in txn.snapshot.add_files()]
        txn.stage(*stated)
        told = forecast(setting, ForecastSide(kind=kind), winner)
        conflicts = _conflict_after_winner(pair) is not None
        assert conflicts == (told.verdict is Verdict.ALWAYS) == (kind is StatementKind.RESTORE)


def test_an_operation_that_reads_at_its_commit_overlaps_with_nothing():
    late = ForecastSide(kind=StatementKind.VACUUM, reads_late=True)
    assert forecast(PLAIN, late, ForecastSide(kind=StatementKind.ALTER)).verdict is Verdict.NEVER


def test_clustering_changes_without_the_protocol_where_that_knows_it():
    insert, cluster = (
        ForecastSide(kind=k) for k in (StatementKind.INSERT, StatementKind.CLUSTER_BY)
    )
    assert forecast(PLAIN, insert, cluster).exceptions == ("ProtocolChangedException",)
    known = replace_setting(PLAIN, supports_clustering=True)
    assert forecast(known, insert, cluster).verdict is Verdict.NEVER


def test_a_merge_that_inserts_nothing_moves_no_identity():
    identity = TableSetting(RELAXED, vectors=True, identity=True)
    insert = ForecastSide(kind=StatementKind.INSERT)
    for inserts, verdict in ((True, Verdict.ALWAYS), (False, Verdict.NEVER)):
        merge = ForecastSide(kind=StatementKind.MERGE, inserts=inserts)
        assert forecast(identity, insert, merge).verdict is verdict


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        (BY_FILES, "the table is partitioned"),
        (TableSetting(RELAXED, vectors=False), "deletion vectors are not enabled"),
        (TableSetting(RELAXED, vectors=True, identity=True), "the table has an identity column"),
    ],
)
def test_a_forecast_names_no_column_of_the_sample_table(setting, why):
    delete = ForecastSide(kind=StatementKind.DELETE)
    assert forecast(setting, delete, delete).why == f"file level: {why}"


@pytest.mark.parametrize("winner", [StatementKind.DELETE, StatementKind.OPTIMIZE])
def test_an_upgrade_for_iceberg_rewrites_files_that_have_no_vectors_any_more(winner):
    upgrade, rewrite = (
        ForecastSide(kind=StatementKind.UPGRADE),
        ForecastSide(kind=StatementKind.PURGE),
    )
    told = forecast(PLAIN, upgrade, ForecastSide(kind=winner))
    assert told.verdict is Verdict.SAME_FILES
    by_files = replace_setting(PLAIN, vectors=False)
    assert told == forecast(by_files, rewrite, ForecastSide(kind=winner))
    insert = ForecastSide(kind=StatementKind.INSERT)
    assert forecast(PLAIN, upgrade, insert).verdict is Verdict.NEVER
