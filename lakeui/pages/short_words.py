"""Words where a line or a column is too narrow for them."""

_SHORT_REASONS = {
    "partitioned": "partitioned",
    "identity": "identity",
    "eletionVectors": "DVs off",
    "eletion vectors off": "DVs off",
}


def short_reason(reason: str) -> str:
    """Why a table has no row-level concurrency, where a column is narrow."""
    short = (text for sign, text in _SHORT_REASONS.items() if sign in reason)
    return next(short, reason[:24] or "no")


def short_vectors(reason: str) -> str:
    """A reason where a line is short: DVs for deletion vectors."""
    return reason.replace("deletion vectors", "DVs")


def short_operation(name: str) -> str:
    """An operation's name where a column is narrow."""
    return name.replace("OPTIMIZE ZORDER BY", "ZORDER BY")


def check_head(operation: str) -> str:
    """An operation over a narrow column of checks: the first word tells it."""
    first, _, rest = operation.partition(" ")
    return operation if len(operation) <= 9 or not rest else first
