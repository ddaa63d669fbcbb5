"""Which target row a MERGE does what to, found once and kept, and the rows that come of it.

A row is known by its file and position, a source row by a number it got when the source was read.
Everything after the join works on these, so that nothing is decided twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.analysed_merge import (
    BY_SOURCE,
    DELETE,
    MATCHED,
    NOT_MATCHED,
    AnalysedClause,
    AnalysedMerge,
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
from engine.expressions.tree import Expression, SparkExpression
from engine.operations.merge_needs import (
    SOURCE,
    TARGET,
    PairColumns,
    columns_read,
    joins_by_equality,
    source_columns,
)
from engine.operations.query_tables import QueryTables
from engine.schema.types import StructType
from engine.spark.assignment import (
    AssignmentClause,
    assign_columns,
    recompute_generated,
    split_single_evaluation,
    way_to_store,
)
from engine.spark.broadcast import broadcast_if_small
from engine.spark.collection import FrameSize
from engine.spark.columns import column, is_true, quote_column, to_column, to_spark_type
from engine.spark.identity import number_rows
from engine.spark.materialisation import materialise_rows
from engine.spark.own_columns import add_source_columns
from engine.spark.reader import FILE, ROW, ROW_COMMIT_VERSION, ROW_ID
from engine.spark.shape import store_column
from engine.spark.table_rules import complete

SOURCE_ROW = "__lake_source_row"
CLAUSE = "__lake_clause"
_NOTHING = -1
_NUMBER_BYTES, _ACTION_BYTES = 16, 64


@dataclass(frozen=True)
class MergeRows:
    """The two sides, joined.

    Attributes:
        merge: conditions and clauses.
        table: its name for messages.
        schema: the target's columns, new ones included.
        source: the source's rows with SOURCE_ROW, materialised.
        size: the bytes of the source's columns, and how many rows.
        now_ms: the time of the run.
        tables: what the subqueries of conditions read.
        carried: what pairs hold of the rows they join, where new images are made of it.
        pairs_found: the pairs, once they are known, and `pair_count` how many.
        action_count: how many target rows change, once that is known.
    """

    merge: AnalysedMerge
    table: str
    schema: StructType
    source: DataFrame
    size: FrameSize
    now_ms: int
    tables: QueryTables
    carried: PairColumns | None = None
    pairs_found: DataFrame | None = None
    pair_count: int = 0
    action_count: int = 0

    @property
    def asks_for_values(self) -> bool:
        """Whether a value of a row that is there is asked once: `materialise_values` computes it."""
        return any(
            is_asked_once(value)
            for clause in self.merge.clauses
            if clause.when != NOT_MATCHED
            for value in clause.assignments.values()
        )

    def clauses(self, when: str) -> list[tuple[int, AnalysedClause]]:
        """The clauses of a kind with their numbers, in the order in which they are tried."""
        return [(i, clause) for i, clause in enumerate(self.merge.clauses) if clause.when == when]

    @property
    def updates(self) -> bool:
        """Whether a clause makes new images of rows that are there."""
        kinds = {clause.action for clause in self.merge.clauses if clause.when != NOT_MATCHED}
        return bool(kinds - {DELETE})

    def pairs(self, target: DataFrame) -> DataFrame:
        """FILE, ROW, SOURCE_ROW and CLAUSE (-1: none) of every pair that ON joins, materialised.

        What is `carried` is beside them.
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
        return materialise_rows(pairs)

    def find_unmatched_source(self, target: Callable[[], DataFrame]) -> DataFrame:
        """The source rows that ON joins to no row of the target, which is scanned unless pairs tell."""
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
        """Both sides where ON is true; what Spark alone evaluates is asked of what the rest joins."""
        parts = split_conjuncts(self.merge.on)
        rest = conjunction(part for part in parts if not spark_expressions(part))
        source = self._source_of(source_columns(self.merge, self.carried)).alias("source")
        joined = target.alias("target").join(source, to_column(rest))
        own = [part for part in parts if spark_expressions(part)]
        return self.tables.filter_rows(joined, conjunction(own)) if own else joined

    def _source_of(self, names: set[str] | None) -> DataFrame:
        """The source for a join that needs these columns of it, or nobody knows which."""
        is_known = names is not None and names <= self.size.by_column.keys()
        needed = [*names, SOURCE_ROW] if names is not None and is_known else None
        return broadcast_if_small(self.source, self.size.bytes_of(needed))

    def _choose_clauses(self, rows: DataFrame, when: str) -> tuple[DataFrame, Column]:
        """The rows with what conditions need, and CLAUSE: the first whose condition holds, or -1."""
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
        """The target rows that no source row joins, each with the BY SOURCE clause that takes it."""
        left = target.join(pairs.select(FILE, ROW), [FILE, ROW], "left_anti").alias("target")
        left, chosen = self._choose_clauses(left, BY_SOURCE)
        matches = left.select(FILE, ROW, F.lit(None).cast("long").alias(SOURCE_ROW), chosen)
        return materialise_rows(matches.filter(column(CLAUSE) >= 0))

    def materialise_values(
        self, target: DataFrame, actions: DataFrame
    ) -> tuple["MergeRows", DataFrame]:
        """The merge whose values that are evaluated once stand, materialised, beside the actions."""
        clauses: list[AnalysedClause] = []
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
        frame_with_values = materialise_rows(frame.select(*evaluated, column(CLAUSE), *columns))
        return replace(self, merge=replace(self.merge, clauses=tuple(clauses))), frame_with_values

    def images(
        self, target: DataFrame, actions: DataFrame, *, others: bool, kept: bool
    ) -> DataFrame:
        """The rows of target files as they will be: deleted ones left out.

        Args:
            target: rows of the files that change, with FILE and ROW.
            actions: FILE, ROW, SOURCE_ROW, CLAUSE of the rows that change.
            others: rows without an action stay, as they are.
            kept: row ids and row commit versions are among the target's columns.
        """
        frame = self._join_actions(target, actions, "left" if others else "inner")
        numbers = [i for i, clause in enumerate(self.merge.clauses) if clause.action == DELETE]
        doomed = F.coalesce(column(CLAUSE).isin(numbers), F.lit(False))
        return self._build_images(frame.filter(~doomed), kept=kept)

    def build_images_from_pairs(self, actions: DataFrame, *, kept: bool) -> DataFrame:
        """The images of updated rows, made of what the pairs hold."""
        assert self.carried is not None  # noqa: S101 - the pairs hold it
        updating = [i for i, clause in self.clauses(MATCHED) if clause.action != DELETE]
        updated = actions.filter(column(CLAUSE).isin(updating))
        return self._build_images(updated, kept=kept, held=self.carried.target)

    def changes(self, target: DataFrame, actions: DataFrame, change_type: str) -> DataFrame:
        """Deleted rows, and rows before and after an update, with their change type."""
        frame = self._join_actions(target, actions, "inner")
        deletes = [i for i, clause in enumerate(self.merge.clauses) if clause.action == DELETE]
        before = F.when(column(CLAUSE).isin(deletes), "delete").otherwise("update_preimage")
        names = [F.col(f"target.{quote_column(n)}").alias(n) for n in self.schema.names]
        old = frame.select(*names, before.alias(change_type))
        updated = self._build_images(frame.filter(~column(CLAUSE).isin(deletes)), kept=False)
        return old.unionByName(updated.withColumn(change_type, F.lit("update_postimage")))

    def inserts(self, unmatched: DataFrame) -> tuple[DataFrame | None, StructType]:
        """New rows for source rows that no target row joins; None without such clauses.

        The schema is the target's, with the last numbers that identity columns were given.
        """
        clauses, marked = self.clauses(NOT_MATCHED), self.schema
        if not clauses:
            return None, marked
        source, clause_number = self._choose_clauses(unmatched.alias("source"), NOT_MATCHED)
        chosen = source.select(F.col("*"), clause_number).alias("source")
        if any(
            clause.condition is not None and has_subquery(clause.condition) for _, clause in clauses
        ):
            chosen = materialise_rows(chosen).alias("source")  # asked once, as all are
        frames = []
        for number, clause in clauses:
            values, given = self._insert_values(chosen, number, clause)
            rows, marked = number_rows(values, marked, given)
            frames.append(complete(rows, self.table, self.schema, self.now_ms))
        return reduce(DataFrame.unionByName, frames), marked

    def _insert_values(
        self, chosen: DataFrame, number: int, clause: AnalysedClause
    ) -> tuple[DataFrame, StructType]:
        """The values of one clause's rows, and the columns that they are for."""
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
        self, path: tuple[str, ...], value: Expression, clause: AnalysedClause
    ) -> Column:
        setting = clause_setting(clause)
        way = way_to_store(self.schema, path, value, setting)
        steady = is_deterministic(value) and not is_asked_once(value)
        return store_column(self.tables.value(value), way, setting.clause, is_steady=steady)

    def _join_actions(self, target: DataFrame, actions: DataFrame, how: str) -> DataFrame:
        """Target rows beside what is to be done to them and the source row it is done with."""
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
        """New images; columns of the target that are not `held` (None: all are) are all set or computed."""

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
        # what a clause does not set itself is computed anew; rows without a clause are as they were
        stands = {
            name: column(CLAUSE).isin(numbers) | column(CLAUSE).isNull()
            for name, numbers in setters.items()
        }
        return recompute_generated(rows, self.table, self.schema, stands).drop(CLAUSE)


def compute_source_columns(
    merge: AnalysedMerge, source: DataFrame
) -> tuple[AnalysedMerge, DataFrame]:
    """The source with what Spark alone can compute of it beside its columns, and a MERGE over these.

    Rows can then be distinguished by it as by any other column of the source.
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


def clause_setting(clause: AnalysedClause) -> AssignmentClause:
    """A clause as what sets values."""
    return AssignmentClause(clause.words, clause.fills_fields)
