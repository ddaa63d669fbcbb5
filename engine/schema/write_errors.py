"""Why a statement is not done: errors of what is written, under delta-spark's classes."""

from engine.errors import (
    ExpressionError,
    InvalidPropertyError,
    InvariantViolationError,
    RequestError,
    SchemaMismatchError,
    StatementError,
)


class FieldMismatchError(SchemaMismatchError):
    """Structs whose fields are not those of the column that they are for."""

    code = "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"
    sqlstate = "42846"


class FieldMissingError(FieldMismatchError):
    """Structs that lack a field of the column's: what it would be, nobody said."""


class TypeNotStorableError(SchemaMismatchError):
    """Values of a type that no cast makes values of a column."""

    code = "DATATYPE_MISMATCH"
    sqlstate = "42K09"


class ColumnCountError(SchemaMismatchError):
    """Rows with too few or too many columns, or fields inside one, for the table."""

    code = "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
    sqlstate = "42802"


class ColumnMappingRestoreError(RequestError):
    """RESTORE to a version without column mapping, of a table that has it."""

    code = "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE"
    sqlstate = "0AKDC"


class NestedFieldError(RequestError):
    """A field inside a column, where a column as a whole is to be given."""

    code = "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION"
    sqlstate = "0AKDC"


class IdentityUpdateError(RequestError):
    """An identity column is set, whose values the table gives."""

    code = "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"
    sqlstate = "42808"


class IdentityInsertError(RequestError):
    """A new row brings a value for an identity column whose values the table alone gives."""

    code = "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"
    sqlstate = "42808"


class NotDeterministicError(RequestError):
    """A condition that may give another answer for the same row each time it is asked."""

    code = "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"
    sqlstate = "0AKDC"


class ConstraintExistsError(InvalidPropertyError):
    """The table has a constraint of that name."""

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
    """A CHECK constraint that is no condition."""

    code = "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT"
    sqlstate = "42621"


class NotNullViolatedError(InvariantViolationError):
    """A row has null in a column that is NOT NULL."""

    code = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    sqlstate = "23502"


class NewConstraintViolatedError(InvariantViolationError):
    """A row that is there breaks a constraint that is to be added."""

    code = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
    sqlstate = "23512"


def row_breaks(rule: str, values: str) -> InvariantViolationError:
    """The error of a row that breaks a rule of its table; `values` shows the row."""
    kind = NotNullViolatedError if rule.startswith("NOT NULL of ") else InvariantViolationError
    what = f"A row breaks {rule}: {values}. Nothing was written."
    return kind(what, "Correct the row, or change the rule.")
