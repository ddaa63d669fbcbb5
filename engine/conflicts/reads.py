"""Reads of this transaction and of recorded commits, as conditions that checks can rely on.

Of a condition only the part with repeatable values counts; the rest counts as TRUE.

A predicate in the log is another program's text: engines spell literals, casts and attributes
differently, and evaluate texts, times and collations by their own settings. Only comparisons with
the same meaning in every engine count as proof. Any other commit counts as reading every row.
"""

import json
import re
from functools import lru_cache

from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddFile
from engine.actions.statistics import parse_stats
from engine.conflicts.transaction_info import ReadPredicate, WinningCommit
from engine.errors import ExpressionError
from engine.expressions.parse import parse_condition
from engine.expressions.render import to_sql
from engine.expressions.traits import (
    conjunction,
    has_subquery,
    is_deterministic,
    spark_expressions,
    split_conjuncts,
    uses_complex_types,
)
from engine.expressions.tree import TRUE, VOID, Call, Column, Expression, Literal
from engine.expressions.types import INTEGRALS
from engine.schema.types import BOOLEAN, DATE, STRING, DecimalType, StructType
from engine.snapshot.data_skipping import Skipper

SUBQUERY = "its condition contains a subquery"
NOT_DETERMINISTIC = "its condition is not deterministic"
COMPLEX_VALUES = "its condition uses struct, array or map values"
READS_TARGET = "its source reads the target"
"""Why a MERGE with its own target as source is decided at file level."""

READS_PREDICATE_ONLY = "lakeui.readsPredicateOnly"
"""The tag of a commit whose predicate covers all its reads: no assigned value reads the table."""
_COMPARISONS = frozenset(
    {"=", "<=>", "<>", "!=", "<", "<=", ">", ">=", "in", "isnull", "isnotnull"}
)
_ATTRIBUTE_ID = re.compile(r"#\d+L?\b")
_QUOTES = frozenset('"\\')
_TWO_TIMES_MS = (0, 1_000_000_000_001)
_COLLATIONS = "__COLLATIONS"


def read_predicate(
    condition: Expression | None, *, every_match_changes: bool = False
) -> ReadPredicate:
    """Build the read of the rows a condition selects.

    Deterministic top-level conjuncts are kept. The others count as TRUE: the read is then wider
    than the command's, never narrower.
    """
    if condition is None or condition == TRUE:
        return ReadPredicate("TRUE", None, every_match_changes)
    stable = [part for part in split_conjuncts(condition) if is_stable(part)]
    narrowed = conjunction(stable)
    obstacle = row_obstacle(condition)
    return ReadPredicate(
        text=to_sql(condition),
        condition=None if narrowed == TRUE else narrowed,
        every_match_changes=every_match_changes and obstacle is None,
        row_obstacle=obstacle,
    )


def row_obstacle(condition: Expression) -> str | None:
    """Explain why a condition is decided at file level; None if rows can decide it."""
    if own := spark_expressions(condition):
        return f"only Spark can evaluate its condition: {own[0].text[:200]}"
    return value_obstacle(condition)


def value_obstacle(condition: Expression) -> str | None:
    """Return why rows cannot be compared when a column is set to this value; None if they can."""
    if has_subquery(condition):
        return SUBQUERY
    if not is_deterministic(condition):
        return NOT_DETERMINISTIC
    if uses_complex_types(condition):
        return COMPLEX_VALUES
    return None


def is_stable(part: Expression) -> bool:
    """Return whether the same row always gives the same answer, on any engine."""
    return is_deterministic(part) and not has_subquery(part) and not spark_expressions(part)


def may_hold(skipper: Skipper | None, add: AddFile) -> bool:
    """Return whether a file may hold a row a condition selects; None selects every row.

    Partition values come first: statistics are parsed only if those do not decide.
    """
    if skipper is None:
        return True
    values = add.partition_values or {}
    if not skipper.may_match(values, None):
        return False
    stats = parse_stats(add.stats) if skipper.looks_at_data else None
    has_vector = add.deletion_vector is not None
    return stats is None or skipper.may_match(values, stats, has_vector=has_vector)


def may_have_read(
    winner: WinningCommit,
    add: AddFile,
    schema: StructType,
    partition_columns: tuple[str, ...],
    mapping_mode: str,
) -> bool:
    """Return whether a winning commit may have read a row of a file. False is proof."""
    texts = predicate_texts(winner.info)
    if texts is None or not _reads_predicate_only(winner.info):
        return True
    skipper = _skipper(tuple(texts), schema, partition_columns, mapping_mode)
    return skipper is None or may_hold(skipper, add)


def predicate_texts(info: CommitInfo) -> list[str] | None:
    """Return the recorded conditions, joined by AND; None if none is recorded.

    The log has one text, or a JSON list of texts. An empty list is the condition TRUE.
    """
    recorded = (info.operation_parameters or {}).get("predicate")
    if not isinstance(recorded, str):
        return None
    try:
        predicates = json.loads(recorded)
    except ValueError:
        predicates = recorded
    if isinstance(predicates, str):
        predicates = [predicates] if predicates else []
    is_list = isinstance(predicates, list) and all(isinstance(text, str) for text in predicates)
    return predicates if is_list else None


def read_of_record(info: CommitInfo, schema: StructType) -> ReadPredicate | None:
    """Return the read of a DELETE or UPDATE; None if the log may omit some reads."""
    texts = predicate_texts(info)
    if texts is None or not _reads_predicate_only(info):
        return None
    return _parse_read(" AND ".join(f"({text})" for text in texts) or "TRUE", schema)


@lru_cache(maxsize=256)
def _parse_read(text: str, schema: StructType) -> ReadPredicate | None:
    """Parse a recorded condition, cached for replays at several levels.

    Return None for a text with a double quote or a backslash, a variable time, or a subquery, which
    may read the table itself: these do not determine the rows read.
    """
    if _QUOTES & set(text):
        return None
    try:
        tree, later = (parse_condition(text, schema, now_ms=ms) for ms in _TWO_TIMES_MS)
    except ExpressionError:
        return None
    if tree != later or has_subquery(tree):
        return None
    return read_predicate(tree, every_match_changes=True)


def _reads_predicate_only(info: CommitInfo) -> bool:
    """Return whether the predicate covers every read of the commit.

    A DELETE has no other read. An UPDATE may assign a subquery over the table, which the log does
    not record, so its writer must declare that it did not.
    """
    if info.operation == "DELETE":
        return True
    tagged = str((info.tags or {}).get(READS_PREDICATE_ONLY)).lower() == "true"
    return info.operation == "UPDATE" and tagged


@lru_cache(maxsize=256)
def _skipper(
    texts: tuple[str, ...],
    schema: StructType,
    partition_columns: tuple[str, ...],
    mapping_mode: str,
) -> Skipper | None:
    condition = _understood(texts, schema)
    if condition is None:
        return None
    return Skipper(condition, schema, partition_columns, mapping_mode)


def _understood(texts: tuple[str, ...], schema: StructType) -> Expression | None:
    """Return a condition true for every row the texts select; None if none is certain."""
    parts: list[Expression] = []
    for text in texts:
        tree = _parse_stable(text, schema)
        if tree is None:
            return None
        conjuncts = split_conjuncts(tree)
        plain = [part for part in conjuncts if _is_plain(part, schema)]
        is_unquoted = _ATTRIBUTE_ID.search(text) is not None
        if is_unquoted and (len(plain) < len(conjuncts) or not _names_integers(tree)):
            return None  # Spark omits quotes here: texts look like columns
        parts += plain
    return conjunction(parts)


def _parse_stable(text: str, schema: StructType) -> Expression | None:
    """Return the tree of a text if it means the same in every engine at any time; else None."""
    if _QUOTES & set(text):  # an identifier in one engine, a text in another
        return None
    named = _ATTRIBUTE_ID.sub("", text)
    try:
        tree, later = (parse_condition(named, schema, now_ms=ms) for ms in _TWO_TIMES_MS)
    except ExpressionError:
        return None
    depends_on_more = has_subquery(tree) or spark_expressions(tree) or not is_deterministic(tree)
    return None if depends_on_more or tree != later else tree


def _is_plain(part: Expression, schema: StructType) -> bool:
    """Return whether every engine gives a comparison of columns with constants one meaning."""
    match part:
        case Literal():
            return isinstance(part.value, bool)
        case Call(function="and" | "or" | "not", arguments=arguments):
            return all(_is_plain(argument, schema) for argument in arguments)
        case Call(function=name, arguments=arguments) if name in _COMPARISONS:
            columns = [argument for argument in arguments if isinstance(argument, Column)]
            values = [argument for argument in arguments if not isinstance(argument, Column)]
            return len(columns) == 1 and all(_compares(columns[0], v, schema) for v in values)
        case _:
            return False


def _compares(column: Column, value: Expression, schema: StructType) -> bool:
    """Return whether every engine compares this column and literal in the same way."""
    field = schema.get(column.path[0])
    if not isinstance(value, Literal) or len(column.path) > 1 or field is None:
        return False
    if column.type == STRING and (column.char_length or _COLLATIONS in field.metadata):
        return False
    if isinstance(column.type, DecimalType):
        return isinstance(value.type, DecimalType) or value.type in (*INTEGRALS, VOID)
    same = (column.type,) if column.type in (STRING, DATE, BOOLEAN) else ()
    return value.type in (*(INTEGRALS if column.type in INTEGRALS else same), VOID)


def _names_integers(tree: Expression) -> bool:
    """Return whether every leaf is a column or a literal of whole numbers, or TRUE or FALSE."""
    match tree:
        case Call(arguments=arguments):
            return all(map(_names_integers, arguments))
        case Column():
            return tree.type in INTEGRALS
        case Literal():
            return tree.type in INTEGRALS or tree.type == BOOLEAN
        case _:
            return False
