"""Row matching of a MERGE in Spark: computed once and kept, with the rows derived from it.

A target row is identified by file and position, a source row by a number assigned when the source
was read. Every step after the join uses these, so no decision is made twice. Beside them a pair
holds the columns that the clauses read on each side, if these are known.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.merge import (
    BY_SOURCE,
    DELETE,
    MATCHED,
    NOT_MATCHED,
    AnalyzedClause,
    AnalyzedMerge,
    equal_sides,
)
from engine.expressions.traits import (
    conjunction,
    has_subquery,
    is_asked_once,
    is_deterministic,
    replace_leaves,
    spark_expressions,
    split_conjuncts,
)
from engine.expressions.tree import Column as ColumnOfRow
from engine.expressions.tree import Expression, SparkExpression, walk
from engine.operations.query_tables import QueryTables
from engine.schema.types import StructType
from engine.snapshot.row_rules import GENERATED
from engine.spark.collection import FrameSize, broadcast_if_small, materialize_rows
from engine.spark.columns import column, is_true, quote_column, to_column, to_spark_type
from engine.spark.own_columns import add_source_columns
from engine.spark.scan.reader import FILE, ROW, ROW_COMMIT_VERSION, ROW_ID
from engine.spark.write.assignment import (
    AssignmentClause,
    assign_columns,
    recompute_generated,
    split_single_evaluation,
    way_to_store,
)
from engine.spark.write.identity import number_rows
from engine.spark.write.shape import store_column
from engine.spark.write.table_rules import complete

TARGET, SOURCE = "target", "source"

SOURCE_ROW = "__lake_source_row"
CLAUSE = "__lake_clause"
_NOTHING = -1
_NUMBER_BYTES, _ACTION_BYTES = 16, 64


@dataclass(frozen=True)
class PairColumns:
    """The columns carried by pairs, sufficient for all new images.

    Names of columns of either side, and whether row tracking columns are included.
    """

    target: tuple[str, ...]
    source: tuple[str, ...]
    row_ids: bool

    def columns(self, acts: Column) -> list[Column]:
        """Return structs named after the sides, for expressions to resolve; null unless `acts`."""
        sides = [
            F.when(
                acts, F.struct(*[F.col(f"{side}.{quote_column(name)}") for name in names])
            ).alias(side)
            for side, names in ((TARGET, self.target), (SOURCE, self.source))
            if names
        ]
        tracking = (ROW_ID, ROW_COMMIT_VERSION) if self.row_ids else ()
        return [*sides, *[F.col(f"{TARGET}.{quote_column(name)}") for name in tracking]]


@dataclass(frozen=True)
class MergeRows:
    """The two sides, joined.

    Attributes:
        merge: conditions and clauses.
        table: the table's name for messages.
        schema: the target's columns, new ones included.
        source: the source's rows with SOURCE_ROW, materialized.
        size: the bytes of the source's columns, and its number of rows.
        now_ms: the time of the run.
        caller: the session whose settings say what the table's expressions mean.
        tables: reads the tables of subqueries in conditions.
        carried: the columns pairs carry to build new images, if they do.
        pairs_found: the pairs once found; `pair_count` is their number.
        action_count: the number of changed target rows, once known.
    """

    merge: AnalyzedMerge
    table: str
    schema: StructType
    source: DataFrame
    size: FrameSize
    now_ms: int
    caller: SparkSession
    tables: QueryTables
    carried: PairColumns | None = None
    pairs_found: DataFrame | None = None
    pair_count: int = 0
    action_count: int = 0

    @property
    def asks_for_values(self) -> bool:
        """Whether a value of an existing row is evaluated once, by `materialize_values`."""
        return any(
            is_asked_once(value)
            for clause in self.merge.clauses
            if clause.when != NOT_MATCHED
            for value in clause.assignments.values()
        )

    def clauses(self, when: str) -> list[tuple[int, AnalyzedClause]]:
        """Return the clauses of a kind with their numbers, in evaluation order."""
        return [(i, clause) for i, clause in enumerate(self.merge.clauses) if clause.when == when]

    @property
    def updates(self) -> bool:
        """Whether a clause makes new images of existing rows."""
        kinds = {clause.action for clause in self.merge.clauses if clause.when != NOT_MATCHED}
        return bool(kinds - {DELETE})

    def pairs(self, target: DataFrame) -> DataFrame:
        """Join the sides into pairs of FILE, ROW, SOURCE_ROW and CLAUSE (-1: none), materialized.

        The `carried` columns follow.
        """
        joined, chosen = self._choose_clauses(self._join_sides(target), MATCHED)
        places = [F.col(f"{TARGET}.{FILE}"), F.col(f"{TARGET}.{ROW}")]
        source_row = F.col(f"{SOURCE}.{SOURCE_ROW}")
        if self.carried is None:
            pairs = joined.select(*places, source_row, chosen)
        else:
            marked = joined.select(F.col("*"), chosen)
            beside = self.carried.columns(column(CLAUSE) > _NOTHING)
            pairs = marked.select(*places, source_row, column(CLAUSE), *beside)
        return materialize_rows(pairs)

    def find_unmatched_source(self, target: Callable[[], DataFrame]) -> DataFrame:
        """Return the source rows without a match; scan the target only if no pairs are kept."""
        if self.pairs_found is not None:
            matched = self.pairs_found.select(SOURCE_ROW)
            few = broadcast_if_small(matched, self.pair_count * _NUMBER_BYTES)
            return self.source.join(few, SOURCE_ROW, "left_anti")
        on = self.merge.on
        if joins_by_equality(on) or spark_expressions(on):
            matched = self._join_sides(target()).select(F.col(f"{SOURCE}.{SOURCE_ROW}")).distinct()
            few = broadcast_if_small(matched, self.size.rows * _NUMBER_BYTES)
            return self.source.join(few, SOURCE_ROW, "left_anti")
        return self.source.alias(SOURCE).join(target().alias(TARGET), to_column(on), "left_anti")

    def _join_sides(self, target: DataFrame) -> DataFrame:
        """Join both sides by ON; expressions only Spark can evaluate filter the joined rows."""
        parts = split_conjuncts(self.merge.on)
        rest = conjunction(part for part in parts if not spark_expressions(part))
        source = self._source_of(source_columns(self.merge, self.carried)).alias("source")
        joined = target.alias("target").join(source, to_column(rest))
        own = [part for part in parts if spark_expressions(part)]
        return self.tables.filter_rows(joined, conjunction(own)) if own else joined

    def _source_of(self, names: set[str] | None) -> DataFrame:
        """Return the source, broadcast if the columns needed by the join are small."""
        is_known = names is not None and names <= self.size.by_column.keys()
        needed = [*names, SOURCE_ROW] if names is not None and is_known else None
        return broadcast_if_small(self.source, self.size.bytes_of(needed))

    def _choose_clauses(self, rows: DataFrame, when: str) -> tuple[DataFrame, Column]:
        """Return the rows with the columns of conditions, and CLAUSE: the first true one or -1."""
        clauses = self.clauses(when)
        conditions = [clause.condition for _, clause in clauses if clause.condition is not None]
        chosen = F.lit(_NOTHING)
        for number, clause in reversed(clauses):
            chosen = F.when(self._holds(clause.condition), F.lit(number)).otherwise(chosen)
        return self.tables.prepare_rows(rows, conditions), chosen.alias(CLAUSE)

    def _holds(self, condition: Expression | None) -> Column:
        if condition is None:
            return F.lit(True)
        return self.tables.holds(condition) if has_subquery(condition) else is_true(condition)

    def find_unmatched_targets(self, target: DataFrame, pairs: DataFrame) -> DataFrame:
        """Return the target rows without a match, each with its BY SOURCE clause."""
        left = target.join(pairs.select(FILE, ROW), [FILE, ROW], "left_anti").alias("target")
        left, chosen = self._choose_clauses(left, BY_SOURCE)
        matches = left.select(FILE, ROW, F.lit(None).cast("long").alias(SOURCE_ROW), chosen)
        return materialize_rows(matches.filter(column(CLAUSE) >= 0))

    def materialize_values(
        self, target: DataFrame, actions: DataFrame
    ) -> tuple["MergeRows", DataFrame]:
        """Materialize values evaluated once with the actions; return the merge over them."""
        clauses: list[AnalyzedClause] = []
        asked: dict[str, tuple[int, Expression]] = {}
        for number, clause in enumerate(self.merge.clauses):
            over = clause.assignments
            if clause.when != NOT_MATCHED:
                values, over = split_single_evaluation(clause.assignments, f"{number}_")
                asked |= {name: (number, value) for name, value in values.items()}
            clauses.append(replace(clause, assignments=over))
        if not asked:
            return self, actions
        frame = self._join_actions(target, actions, "inner")
        for number in sorted({number for number, _ in asked.values()}):
            values_of = [value for of, value in asked.values() if of == number]
            frame = self.tables.prepare_rows(frame, values_of, column(CLAUSE) == number)
        columns = [
            F.when(column(CLAUSE) == number, self.tables.value(value)).alias(name)
            for name, (number, value) in asked.items()
        ]
        places = {"__file": FILE, "__row": ROW, "__source": SOURCE_ROW}
        evaluated = [column(name).alias(own) for name, own in places.items()]
        frame_with_values = materialize_rows(frame.select(*evaluated, column(CLAUSE), *columns))
        return replace(self, merge=replace(self.merge, clauses=tuple(clauses))), frame_with_values

    def images(
        self, target: DataFrame, actions: DataFrame, *, others: bool, kept: bool
    ) -> DataFrame:
        """Return the new images of target files, without deleted rows.

        Args:
            target: rows of the changed files, with FILE and ROW.
            actions: FILE, ROW, SOURCE_ROW, CLAUSE of the changed rows.
            others: whether rows without an action are included, unchanged.
            kept: row ids and row commit versions are among the target's columns.
        """
        frame = self._join_actions(target, actions, "left" if others else "inner")
        numbers = [i for i, clause in enumerate(self.merge.clauses) if clause.action == DELETE]
        doomed = F.coalesce(column(CLAUSE).isin(numbers), F.lit(False))
        return self._build_images(frame.filter(~doomed), kept=kept)

    def build_images_from_pairs(self, actions: DataFrame, *, kept: bool) -> DataFrame:
        """Build the images of updated rows from the columns carried by pairs."""
        assert self.carried is not None  # noqa: S101 - pairs carry it
        updating = [i for i, clause in self.clauses(MATCHED) if clause.action != DELETE]
        updated = actions.filter(column(CLAUSE).isin(updating))
        return self._build_images(updated, kept=kept, held=self.carried.target)

    def changes(self, target: DataFrame, actions: DataFrame, change_type: str) -> DataFrame:
        """Return deleted rows, and rows before and after an update, with their change type."""
        frame = self._join_actions(target, actions, "inner")
        deletes = [i for i, clause in enumerate(self.merge.clauses) if clause.action == DELETE]
        before = F.when(column(CLAUSE).isin(deletes), "delete").otherwise("update_preimage")
        names = [F.col(f"target.{quote_column(n)}").alias(n) for n in self.schema.names]
        old = frame.select(*names, before.alias(change_type))
        updated = self._build_images(frame.filter(~column(CLAUSE).isin(deletes)), kept=False)
        return old.unionByName(updated.withColumn(change_type, F.lit("update_postimage")))

    def inserts(self, unmatched: DataFrame) -> tuple[DataFrame | None, StructType]:
        """Return the rows to insert for unmatched source rows; None without such clauses.

        The schema is the target's, with the last numbers given to identity columns.
        """
        clauses, marked = self.clauses(NOT_MATCHED), self.schema
        if not clauses:
            return None, marked
        source, clause_number = self._choose_clauses(unmatched.alias("source"), NOT_MATCHED)
        chosen = source.select(F.col("*"), clause_number).alias("source")
        if any(
            clause.condition is not None and has_subquery(clause.condition) for _, clause in clauses
        ):
            chosen = materialize_rows(chosen).alias("source")  # evaluated once, like all subqueries
        frames = []
        for number, clause in clauses:
            values, given = self._insert_values(chosen, number, clause)
            rows, marked = number_rows(values, marked, given)
            frames.append(complete(rows, self.caller, self.table, self.schema, self.now_ms))
        return reduce(DataFrame.unionByName, frames), marked

    def _insert_values(
        self, chosen: DataFrame, number: int, clause: AnalyzedClause
    ) -> tuple[DataFrame, StructType]:
        """Return the values of one clause's rows, and their columns."""
        values = list(clause.assignments.values())
        chosen = self.tables.prepare_rows(chosen, values, column(CLAUSE) == number)
        fields = {path[0]: self.schema.get(path[0]) for path in clause.assignments}
        given = StructType(tuple(field for field in fields.values() if field is not None))
        columns = [
            self._store_value(path, value, clause).alias(target.name)
            for path, value in clause.assignments.items()
            if (target := fields[path[0]]) is not None
        ]
        return chosen.filter(column(CLAUSE) == number).select(*columns), given

    def _store_value(
        self, path: tuple[str, ...], value: Expression, clause: AnalyzedClause
    ) -> Column:
        setting = clause_setting(clause)
        way = way_to_store(self.schema, path, value, setting)
        steady = is_deterministic(value) and not is_asked_once(value)
        return store_column(self.tables.value(value), way, setting.clause, is_steady=steady)

    def _join_actions(self, target: DataFrame, actions: DataFrame, how: str) -> DataFrame:
        """Join target rows with their actions and source rows."""
        few = broadcast_if_small(actions, self.action_count * _ACTION_BYTES)
        renamed = few.withColumnsRenamed({FILE: "__file", ROW: "__row", SOURCE_ROW: "__source"})
        same = (column(FILE) == column("__file")) & (column(ROW) == column("__row"))
        joined = target.alias("target").join(renamed, same, how)
        mine = column("__source") == F.col(f"source.{SOURCE_ROW}")
        values = [
            v for c in self.merge.clauses if c.when == MATCHED for v in c.assignments.values()
        ]
        source = self._source_of(columns_read(values, SOURCE))
        return joined.join(source.alias("source"), mine, "left")

    def _build_images(
        self, frame: DataFrame, *, kept: bool, held: tuple[str, ...] | None = None
    ) -> DataFrame:
        """Build new images; target columns not `held` must be set or computed (None: all held)."""

        def old_value(name: str) -> Column:
            return (
                F.col(f"target.{quote_column(name)}")
                if held is None or name in held
                else F.lit(None)
            )

        new: dict[str, Column] = {}
        setters: dict[str, list[int]] = {}
        for number, clause in enumerate(self.merge.clauses):
            if clause.when == NOT_MATCHED or clause.action == DELETE:
                continue
            assigned = assign_columns(
                self.schema, clause.assignments, clause_setting(clause), "target"
            )
            for name, value in assigned.items():
                old = new.get(name, old_value(name))
                new[name] = F.when(column(CLAUSE) == number, value).otherwise(old)
                setters.setdefault(name, []).append(number)
        columns = []
        for field in self.schema:
            value = new.get(field.name, old_value(field.name))
            columns.append(value.cast(to_spark_type(field.type)).alias(field.name))
        if kept:
            stays = F.when(column(CLAUSE).isNull(), column(ROW_COMMIT_VERSION))
            columns += [column(ROW_ID), stays.alias(ROW_COMMIT_VERSION)]
        rows = frame.select(*columns, column(CLAUSE))
        # recompute unassigned generated columns, except in rows without a clause
        stands = {
            name: column(CLAUSE).isin(numbers) | column(CLAUSE).isNull()
            for name, numbers in setters.items()
        }
        rows = recompute_generated(rows, self.caller, self.table, self.schema, stands)
        return rows.drop(CLAUSE)


def compute_source_columns(
    merge: AnalyzedMerge, source: DataFrame
) -> tuple[AnalyzedMerge, DataFrame]:
    """Add source values only Spark can compute as columns; return the MERGE over them.

    Rows are then distinguished by these columns as by any other column of the source.
    """
    nodes = [
        node
        for tree in merge.expressions()
        for node in spark_expressions(tree)
        if node.sides == {"source"}
    ]
    columns = {node.name: ColumnOfRow((node.name,), node.type, "source") for node in nodes}

    def substitute_column(leaf: Expression) -> Expression:
        return columns.get(leaf.name, leaf) if isinstance(leaf, SparkExpression) else leaf

    rewritten = (
        merge.rewrite(lambda tree: replace_leaves(tree, substitute_column)) if nodes else merge
    )
    return rewritten, add_source_columns(source, nodes)


def clause_setting(clause: AnalyzedClause) -> AssignmentClause:
    """Return the clause of an assignment, for error messages."""
    return AssignmentClause(clause.words, clause.fills_fields)


def choose_pair_columns(
    merge: AnalyzedMerge,
    schema: StructType,
    columns: Collection[str],
    *,
    reads_all: bool,
    row_ids: bool,
) -> PairColumns | None:
    """Choose the columns pairs must carry to build new images without a second read of the target.

    None if this takes target columns not read for matching (unless `reads_all`), if a value is
    evaluated only once, or if a source column is not among `columns`.
    """
    updates = [c for c in merge.clauses if c.when == MATCHED and c.action != DELETE]
    values = [value for clause in updates for value in clause.assignments.values()]
    if not updates or merge.reads_whole_target or any(map(is_asked_once, values)):
        return None
    theirs = columns_read(values, SOURCE)
    mine = columns_read(values, TARGET)
    read = columns_read(_match_conditions(merge), TARGET)
    if mine is None or theirs is None or (read is None and not reads_all):
        return None
    mine |= _find_unset_columns(updates, schema)
    if not (reads_all or mine <= (read or set())) or not theirs <= set(columns):
        return None
    in_order = tuple(name for name in schema.names if name in mine)
    return PairColumns(in_order, tuple(sorted(theirs)), row_ids)


def source_columns(merge: AnalyzedMerge, carried: PairColumns | None) -> set[str] | None:
    """Return the source columns needed to find pairs; None if only Spark knows them."""
    asked = columns_read(_match_conditions(merge), SOURCE)
    return None if asked is None else asked.union(carried.source if carried else ())


def columns_read(trees: Iterable[Expression], side: str) -> set[str] | None:
    """Return the top-level columns of a side in expressions; None if only Spark knows them."""
    trees = list(trees)
    if any(map(is_asked_once, trees)):
        return None
    nodes = (node for tree in trees for node in walk(tree))
    return {
        node.path[0] for node in nodes if isinstance(node, ColumnOfRow) and node.relation == side
    }


def joins_by_equality(on: Expression) -> bool:
    """Return whether ON equates an expression of the target with one of the source."""
    return any(equal_sides(part) for part in split_conjuncts(on))


def _match_conditions(merge: AnalyzedMerge) -> list[Expression]:
    asked = [clause.condition for clause in merge.clauses if clause.when == MATCHED]
    return [merge.on, *(condition for condition in asked if condition is not None)]


def _find_unset_columns(updates: Iterable[AnalyzedClause], schema: StructType) -> set[str]:
    """Return the columns not set by every clause, except generated ones to recompute."""
    updates = list(updates)
    touched = {path[0] for clause in updates for path in clause.assignments}
    return {
        field.name
        for field in schema
        if any((field.name,) not in clause.assignments for clause in updates)
        and (field.name in touched or GENERATED not in field.metadata)
    }
