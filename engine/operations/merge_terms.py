"""A MERGE held against its target's and its source's columns, before any row is read."""

from engine.commands.analysed_merge import NOT_MATCHED, AnalysedClause, AnalysedMerge
from engine.commands.merge import Merge
from engine.errors import RequestError
from engine.expressions.types import is_cast_by_zone, sql_name
from engine.operations.execution import Execution
from engine.operations.merge_rows import clause_setting
from engine.operations.query_tables import QueryTables
from engine.operations.write_rows import WriteTerms, add_columns
from engine.schema.types import StructType
from engine.spark.assignment import check_assignments, target_type
from engine.spark.identity import check_explicit
from engine.spark.session import is_in_utc


def analyse_merge(
    command: Merge, execution: Execution, terms: WriteTerms, source: StructType, tables: QueryTables
) -> tuple[WriteTerms, AnalysedMerge]:
    """Return the target's terms after the MERGE, and its analysed conditions and clauses.

    Raises:
        EngineError: a name, type or clause is invalid.
    """
    if command.schema_evolution:
        terms = add_columns(terms, command.choose_new_columns(source))
    analysed = command.analyse(terms.schema, source, now_ms=execution.now_ms, tables=tables.schema)
    for clause in analysed.clauses:
        _check_clause(clause, terms.schema)
        _check_casts(clause, terms.schema, execution)
    return terms, analysed


def _check_casts(clause: AnalysedClause, schema: StructType, execution: Execution) -> None:
    """Refuse values of UPDATE SET * and INSERT * that the session's time zone would decide."""
    if execution.has_engine_terms or is_in_utc(execution.caller):
        return
    for path, value in clause.assignments.items():
        column = target_type(schema, path)
        if is_cast_by_zone(value.type, column):
            what = f"{'.'.join(path)} would be stored by the session's time zone."
            remedy = f"Cast it in the source: CAST(… AS {sql_name(column)})."
            raise RequestError(what, remedy, field="source")


def _check_clause(clause: AnalysedClause, schema: StructType) -> None:
    inserts = clause.when == NOT_MATCHED
    check_assignments(schema, clause.assignments, clause_setting(clause), new_rows=inserts)
    if inserts:
        named = {path[0] for path in clause.assignments}
        check_explicit(
            schema, StructType(tuple(declared for declared in schema if declared.name in named))
        )
