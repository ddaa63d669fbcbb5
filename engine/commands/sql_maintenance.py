"""OPTIMIZE, REORG, VACUUM and RESTORE: from tokens to commands."""

from collections.abc import Mapping

from engine.commands.maintenance import Optimize, Reorg, Restore, Vacuum
from engine.commands.statement_cursor import StatementCursor
from engine.errors import StatementError
from engine.expressions.literals import is_whole


def optimize(cursor: StatementCursor) -> Optimize:
    """OPTIMIZE t [FULL] [WHERE c] [ZORDER BY (columns)] [WITH (options)]."""
    cursor.need("OPTIMIZE")
    cursor.take("TABLE")
    table = cursor.table()
    full = cursor.take("FULL")
    where = cursor.until("ZORDER BY", "DRY RUN", "WITH (", ";") if cursor.take("WHERE") else None
    columns = cursor.columns() if cursor.take("ZORDER", "BY") else ()
    position = cursor.position
    options = cursor.options("targetSizeBytes", "auto", "minNumFiles")
    return Optimize(
        where,
        columns,
        full,
        _number(options, "targetSizeBytes", position),
        options.get("auto", "false").lower() == "true",
        _number(options, "minNumFiles", position),
        table=table,
    )


def _number(options: Mapping[str, str], name: str, position: int) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not is_whole(text) or len(text) > 18 or int(text) == 0:
        what = f"{name} cannot be {text[:100]}."
        unit = " of bytes" if name == "targetSizeBytes" else ""
        raise StatementError(what, f"Use a whole number{unit}.", position=position)
    return int(text)


def reorg(cursor: StatementCursor) -> Reorg:
    """REORG TABLE t [WHERE c] APPLY (PURGE | UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = n))."""
    cursor.need("REORG", "TABLE")
    table = cursor.table()
    where = cursor.until("APPLY (", ";") if cursor.take("WHERE") else None
    cursor.need("APPLY", "(")
    if cursor.take("UPGRADE", "UNIFORM", "(", "ICEBERG_COMPAT_VERSION"):
        cursor.take("=")
        version = cursor.integer()
        cursor.need(")", ")")
        return Reorg(where, version, table=table)
    cursor.need("PURGE", ")")
    return Reorg(where, table=table)


def vacuum(cursor: StatementCursor) -> Vacuum:
    """VACUUM t [LITE | FULL] [RETAIN n HOURS]."""
    cursor.need("VACUUM")
    table = cursor.table()
    lite, hours, full = False, None, False
    while True:
        if not lite and not full and cursor.peek() in {"LITE", "FULL"}:
            lite = cursor.take("LITE")
            full = not lite and cursor.take("FULL")
        elif hours is None and cursor.take("RETAIN"):
            hours = _hours(cursor)
        else:
            break
    options = cursor.options("overrideRetention")
    override = options.get("overrideRetention", "false").lower() == "true"
    return Vacuum(hours, lite, override, table=table)


def _hours(cursor: StatementCursor) -> float:
    token = cursor.token()
    try:
        hours = float(token.value) if token is not None and token.kind == "number" else None
    except ValueError:
        hours = None
    if hours is None:
        cursor.refuse("a number of hours was expected")
    cursor.index += 1
    if not (cursor.take("HOURS") or cursor.take("HOUR")):
        cursor.refuse("HOURS was expected")
    return hours


def restore(cursor: StatementCursor) -> Restore:
    """RESTORE [TABLE] t [TO] VERSION AS OF n | TIMESTAMP AS OF 'time'."""
    cursor.need("RESTORE")
    cursor.take("TABLE")
    table = cursor.table()
    cursor.take("TO")
    version, timestamp = cursor.point()
    if version is None and timestamp is None:
        cursor.refuse("TIMESTAMP was expected")
    return Restore(version, timestamp, table=table)
