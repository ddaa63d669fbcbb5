"""Errors of written data and statements, under delta-spark's classes."""

from engine.errors import (
    ExpressionError,
    InvalidPropertyError,
    InvalidSchemaError,
    InvariantViolationError,
    RequestError,
    SchemaMismatchError,
    StatementError,
)


class FieldMismatchError(
    SchemaMismatchError, code="DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION", sqlstate="42846"
):
    """Structs have fields other than the column's."""


class FieldMissingError(FieldMismatchError):
    """Structs lack a field of the column, whose value would be unspecified."""


class TypeNotStorableError(SchemaMismatchError, code="DATATYPE_MISMATCH", sqlstate="42K09"):
    """Values have a type with no cast to the column's."""


class ColumnCountError(
    SchemaMismatchError, code="DELTA_INSERT_COLUMN_ARITY_MISMATCH", sqlstate="42802"
):
    """Rows with too few or too many columns, or fields inside one, for the table."""


class RepeatedColumnError(InvalidSchemaError, code="DELTA_DUPLICATE_COLUMNS_FOUND"):
    """Two columns have one name, ignoring case."""


class TwoLayoutsError(InvalidSchemaError, code="DELTA_CLUSTER_BY_WITH_PARTITIONED_BY"):
    """A table is to be both partitioned and clustered."""


class ColumnMappingRestoreError(
    RequestError, code="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE", sqlstate="0AKDC"
):
    """RESTORE of a table with column mapping to a version without it."""


class MappingModeChangeError(
    InvalidPropertyError, code="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE", sqlstate="0AKDC"
):
    """A change of `delta.columnMapping.mode` other than from none to name."""


class NestedFieldError(
    RequestError, code="DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION", sqlstate="0AKDC"
):
    """A nested field is given where a whole column is expected."""


class IdentityUpdateError(
    RequestError, code="DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED", sqlstate="42808"
):
    """An identity column is assigned, although the table generates its values."""


class IdentityInsertError(
    RequestError, code="DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", sqlstate="42808"
):
    """A new row has a value for an identity column generated only by the table."""


class NotDeterministicError(
    RequestError, code="DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED", sqlstate="0AKDC"
):
    """A condition may return different results for the same row."""


class ConstraintExistsError(
    InvalidPropertyError, code="DELTA_CONSTRAINT_ALREADY_EXISTS", sqlstate="42710"
):
    """The table already has a constraint of this name."""


class FieldExistsError(InvalidSchemaError, code="FIELD_ALREADY_EXISTS", sqlstate="42710"):
    """A column of this name exists."""


class ConstraintMissingError(
    InvalidPropertyError, code="DELTA_CONSTRAINT_DOES_NOT_EXIST", sqlstate="42704"
):
    """There is no constraint of this name to drop."""


class ColumnTypeChangeError(
    InvalidSchemaError, code="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", sqlstate="0AKDC"
):
    """A column is to get a type that is not wider, or type widening is not enabled."""


class ColumnDropError(InvalidSchemaError, code="DELTA_UNSUPPORTED_DROP_COLUMN", sqlstate="0AKDC"):
    """A column cannot be dropped without column mapping."""


class ColumnRenameError(
    InvalidSchemaError, code="DELTA_UNSUPPORTED_RENAME_COLUMN", sqlstate="0AKDC"
):
    """A column cannot be renamed without column mapping."""


class AddedRuleError(InvalidSchemaError, code="DELTA_OPERATION_NOT_ALLOWED", sqlstate="0AKDC"):
    """A column added to existing rows is NOT NULL or generated."""


class AddedDefaultError(
    AddedRuleError,
    code="WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED",
    sqlstate="0AKDC",
):
    """A column added to existing rows has a default."""


class SetTwiceError(StatementError, code="DELTA_CONFLICT_SET_COLUMN", sqlstate="42701"):
    """A column is set twice in one clause, or with a field inside it."""


class InsertedTwiceError(
    StatementError, code="DELTA_DUPLICATE_COLUMNS_ON_INSERT", sqlstate="42701"
):
    """A column is named twice in the INSERT of a MERGE."""


class NamedTwiceError(StatementError, code="COLUMN_ALREADY_EXISTS", sqlstate="42711"):
    """A column is named twice in the list of an INSERT, or in the query of a new table."""


class ValueCountError(StatementError, code="MERGE_INSERT_VALUE_COUNT_MISMATCH", sqlstate="21S01"):
    """The INSERT of a MERGE gives another number of values than it names columns."""


class ConstraintNotBooleanError(
    ExpressionError, code="DELTA_NON_BOOLEAN_CHECK_CONSTRAINT", sqlstate="42621"
):
    """A CHECK constraint is not a boolean condition."""


class NotNullViolatedError(
    InvariantViolationError, code="DELTA_NOT_NULL_CONSTRAINT_VIOLATED", sqlstate="23502"
):
    """A row has null in a NOT NULL column."""


class NewConstraintViolatedError(
    InvariantViolationError, code="DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", sqlstate="23512"
):
    """An existing row violates a new constraint."""


class ReplaceWhereMismatchError(
    InvariantViolationError, code="DELTA_REPLACE_WHERE_MISMATCH", sqlstate="44000"
):
    """A new row does not match the condition of the rows that it replaces."""


_RULES: tuple[tuple[str, type[InvariantViolationError]], ...] = (
    ("NOT NULL of ", NotNullViolatedError),
    ("replaceWhere (", ReplaceWhereMismatchError),
)
"""The errors of rules, by how the rule begins."""


def row_breaks(rule: str, values: str) -> InvariantViolationError:
    """Build the error for a row that breaks a table rule; `values` shows the row."""
    kind = next((kind for start, kind in _RULES if rule.startswith(start)), InvariantViolationError)
    what = f"A row breaks {rule}: {values}. Nothing was written."
    return kind(what, "Correct the row, or change the constraint.")
