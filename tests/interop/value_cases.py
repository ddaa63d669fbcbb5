"""Values of every type, in columns and as partition values."""
# ruff: noqa: S608 - the statements are written here, nothing in them comes from outside

from tests.interop.turns import Case, both_ways, create_table

_TYPES = (
    "id BIGINT, i INT, s SMALLINT, y TINYINT, f FLOAT, d DOUBLE, dec DECIMAL(20, 4), small DECIMAL(5, 2), "
    "name STRING, flag BOOLEAN, day DATE, at TIMESTAMP, bin BINARY"
)
_TYPE_ROWS = (
    "INSERT INTO {t} VALUES "
    "(1, 1, 1S, 1Y, 1.5F, 2.5D, 1234567890.1234BD, 1.25BD, 'a', true, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:34:56.789012', X'00FF'), "
    "(2, -2147483648, -32768S, -128Y, -0.25F, -1e300D, -0.0001BD, -999.99BD, '', false, DATE '1582-10-15', TIMESTAMP '1900-01-01 00:00:00', X''), "
    "(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
    "(4, 2147483647, 32767S, 127Y, 3.4e38F, 1.7e308D, 9999999999999999.9999BD, 999.99BD, 'ein längerer Text, mit ''Zeichen'' 🙂', true, "
    "DATE '9999-12-31', TIMESTAMP '2261-12-31 23:59:59.999999', X'E28282')",
)
_TYPE_CHANGES = (
    "DELETE FROM {t} WHERE dec < 0",
    "UPDATE {t} SET f = 0.5F, at = TIMESTAMP '2000-01-01 00:00:00' WHERE day = DATE '2024-02-29'",
    "OPTIMIZE {t}",
)


_PARTITION_TYPES = {
    "p_string": ("STRING", "'a b/c=d%e'", "'ä:*?\"#+{}[]^~|'"),
    "p_int": ("INT", "1", "-7"),
    "p_long": ("BIGINT", "9223372036854775807", "-1"),
    "p_short": ("SMALLINT", "3S", "-3S"),
    "p_byte": ("TINYINT", "3Y", "-3Y"),
    "p_double": ("DOUBLE", "0.1D", "-1.5e200D"),
    "p_float": ("FLOAT", "0.1F", "1e20F"),
    "p_decimal": ("DECIMAL(12, 2)", "1.50BD", "-1234567890.12BD"),
    "p_boolean": ("BOOLEAN", "true", "false"),
    "p_date": ("DATE", "DATE '2024-02-29'", "DATE '1582-10-15'"),
    "p_timestamp": (
        "TIMESTAMP",
        "TIMESTAMP '2024-02-29 01:02:03.000456'",
        "TIMESTAMP '1969-12-31 23:59:59'",
    ),
    "p_ntz": (
        "TIMESTAMP_NTZ",
        "TIMESTAMP_NTZ '2024-02-29 01:02:03.5'",
        "TIMESTAMP_NTZ '1969-12-31 23:59:59'",
    ),
    "p_binary": ("BINARY", "X'61'", "X'626364'"),
}


def partition_values() -> tuple[Case, Case]:
    """Return a table partitioned by a column of every type, with nulls and an empty string."""
    kinds = [f"{name} {kind}" for name, (kind, *_) in _PARTITION_TYPES.items()]
    one, two = (
        ", ".join(partition_type[place] for partition_type in _PARTITION_TYPES.values())
        for place in (1, 2)
    )
    nulls = ", ".join("NULL" for _ in _PARTITION_TYPES)
    empty = "''" + nulls[4:]
    same = " AND ".join(
        f"{name} = {value}"
        for name, (_, value, _) in _PARTITION_TYPES.items()
        if name not in ("p_double", "p_float")
    )
    return both_ways(
        "partition-values",
        "partition values of every type",
        create_table(
            f"id BIGINT, {', '.join(kinds)}", f"PARTITIONED BY ({', '.join(_PARTITION_TYPES)})"
        ),
        rows=(
            f"INSERT INTO {{t}} VALUES (1, {one}), (2, {two}), (3, {nulls}), (4, {empty})",
            f"INSERT INTO {{t}} VALUES (5, {one}), (6, {two})",
        ),
        delta_changes=(f"DELETE FROM {{t}} WHERE {same} AND id = 5", "OPTIMIZE {t}"),
        engine_changes=(
            f"DELETE FROM {{t}} WHERE {same}",
            f"INSERT INTO {{t}} VALUES (7, {one}), (8, {two}), (9, {nulls}), (10, {empty})",
            "DELETE FROM {t} WHERE id = 6",
            "OPTIMIZE {t}",
        ),
    )


VALUE_CASES: tuple[Case, ...] = (
    *both_ways(
        "types",
        "every primitive type",
        create_table(_TYPES),
        rows=_TYPE_ROWS,
        delta_changes=_TYPE_CHANGES,
        engine_changes=_TYPE_CHANGES[::2],
    ),
    *partition_values(),
)
