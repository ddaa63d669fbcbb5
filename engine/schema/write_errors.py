"""Errors of written data and statements, under delta-spark's classes."""

from engine.errors import (
    ExpressionError,
    InvalidPropertyError,
    InvariantViolationError,
    RequestError,
    SchemaMismatchError,
    StatementError,
)


class FieldMismatchError(SchemaMismatchError):
    """Structs have fields other than the column's."""

    code = "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"
    sqlstate = "42846"


class FieldMissingError(FieldMismatchError):
    """Structs lack a field of the column, whose value would be unspecified."""


class TypeNotStorableError(SchemaMismatchError):
    """Values have a type with no cast to the column's."""

    code = "DATATYPE_MISMATCH"
    sqlstate = "42K09"


class ColumnCountError(SchemaMismatchError):
    """Rows with too few or too many columns, or fields inside one, for the table."""

    code = "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
    sqlstate = "42802"


class ColumnMappingRestoreError(RequestError):
    """RESTORE of a table with column mapping to a version without it."""

    code = "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE"
    sqlstate = "0AKDC"


class NestedFieldError(RequestError):
    """A nested field is given where a whole column is expected."""

    code = "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION"
    sqlstate = "0AKDC"


class IdentityUpdateError(RequestError):
    """An identity column is assigned, although the table generates its values."""

    code = "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"
    sqlstate = "42808"


class IdentityInsertError(RequestError):
    """A new row has a value for an identity column generated only by the table."""

    code = "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"
    sqlstate = "42808"


class NotDeterministicError(RequestError):
    """A condition may return different results for the same row."""

    code = "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"
    sqlstate = "0AKDC"


class ConstraintExistsError(InvalidPropertyError):
    """The table already has a constraint of this name."""

    code = "DELTA_CONSTRAINT_ALREADY_EXISTS"
    sqlstate = "42710"


class SetTwiceError(StatementError):
    """A column is set twice in one clause, or with a field inside it."""

    code = "DELTA_CONFLICT_SET_COLUMN"
    sqlstate = "42701"


class InsertedTwiceError(StatementError):
    """A column is named twice in the INSERT of a MERGE."""

    code = "DELTA_DUPLICATE_COLUMNS_ON_INSERT"
    sqlstate = "42701"


class ValueCountError(StatementError):
    """The INSERT of a MERGE gives another number of values than it names columns."""

    code = "MERGE_INSERT_VALUE_COUNT_MISMATCH"
    sqlstate = "21S01"


class ConstraintNotBooleanError(ExpressionError):
    """A CHECK constraint is not a boolean condition."""

    code = "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT"
    sqlstate = "42621"


class NotNullViolatedError(InvariantViolationError):
    """A row has null in a NOT NULL column."""

    code = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    sqlstate = "23502"


class NewConstraintViolatedError(InvariantViolationError):
    """An existing row violates a new constraint."""

    code = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
    sqlstate = "23512"


def row_breaks(rule: str, values: str) -> InvariantViolationError:
    """Build the error for a row that breaks a table rule; `values` shows the row."""
    kind = NotNullViolatedError if rule.startswith("NOT NULL of ") else InvariantViolationError
    what = f"A row breaks {rule}: {values}. Nothing was written."
    return kind(what, "Correct the row, or change the rule.")
