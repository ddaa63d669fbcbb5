"""Program steps in which this engine differs from delta-spark, by number from 1, with the reason."""

DIFFERENCES: dict[str, dict[str, tuple[int, ...]]] = {
    "SQL: REPLACE AS SELECT of itself, no format": {
        "a replacement without `USING` keeps the table's format; delta-spark refuses it": (
            3,
            4,
            5,
            6,
        ),
    },
    "SQL: REPLACE with columns": {
        "a replacement without `USING` keeps the table's format; delta-spark refuses it": (
            5,
            6,
            7,
            8,
        ),
    },
    "SQL: REPLACE USING and ON": {
        "delta-spark 4.4 does not support `REPLACE USING` and `REPLACE ON`": (
            5,
            6,
            7,
            8,
            9,
            12,
            13,
        ),
    },
    "SQL: DESCRIBE HISTORY": {
        "predicates are SQL; other isolation level, `isManaged`, `partitionBy` of inserts, `isBlindAppend` of metadata": (
            21,
        ),
    },
    "catalog: DESCRIBE and SHOW": {
        "new tables have deletion vectors": (
            6,
            10,
        ),
    },
    "SQL: ALTER TABLE": {
        "`REPLACE COLUMNS` is not supported": (15,),
    },
    "SQL: Time travel": {
        "names may end in `@v1`": (9,),
    },
    "catalog: CONVERT TO DELTA": {
        "`CONVERT TO DELTA` takes paths": (5,),
    },
    "SQL: VACUUM, OPTIMIZE, GENERATE": {
        "a negative retention is refused": (7,),
    },
    "catalog: Errors: names and definitions": {
        "other classes for a layout by missing or all columns, and for the history of a missing path": (
            11,
            23,
            29,
        ),
        "clones may be deep": (15,),
        "a location without a table needs columns": (25,),
        "VOID columns cannot be declared": (32,),
    },
    "SQL: Errors: columns and values": {
        "other class for a random condition": (30,),
    },
    "SQL: Errors: properties and commands": {
        "new tables have deletion vectors, and the isolation level WriteSerializable exists": (
            12,
            13,
        ),
        "other class for a missing clustering column": (20,),
        "after `CLUSTER BY NONE`, `ZORDER BY` is possible": (21,),
        "`CACHE TABLE` is refused": (30,),
    },
    "SQL: Identity columns": {
        "`SYNC IDENTITY` is not supported": (7,),
    },
    "SQL: Column defaults": {
        "a feature that a column needs is added by itself": (11,),
    },
    "catalog: Temporary views": {
        "temporary views cannot be changed": (
            12,
            13,
        ),
    },
    "SQL: Clones": {
        "clones may be deep and may replace a table with rows": (
            5,
            6,
            8,
        ),
    },
    "SQL: Scripts and variables": {
        "`BEGIN … END` cannot change Delta tables": (
            3,
            14,
        ),
        "`EXPLAIN` of a change has no plan": (4,),
        "`EXECUTE IMMEDIATE` cannot read Delta tables": (5,),
    },
    "SQL: Type widening": {
        "a feature that a column needs is added by itself": (
            5,
            7,
        ),
        "other class for a narrower type": (9,),
    },
    "SQL: VARIANT": {
        "VARIANT columns cannot be written": (
            1,
            2,
            3,
            4,
            5,
        ),
    },
    "SQL: Clones at a location with a table": {
        "a clone may replace a table that is named by its path": (
            10,
            11,
            12,
        ),
    },
    "SQL: Subqueries and random values in DELETE and UPDATE": {
        "subqueries in any condition and random values are supported; other class for an aggregate": (
            5,
            6,
            7,
            8,
            9,
            10,
        ),
    },
    "streams: mergeSchema": {
        "errors inside a stream have Spark's class for data sources in Python": (1,),
    },
    "streams: what a source does after changes": {
        "errors inside a stream have Spark's class for data sources in Python": (
            3,
            5,
        ),
        "rows before a refused version arrive first": (
            4,
            6,
        ),
    },
    "DataFrame: writeTo": {
        "a replacement cannot make a table append-only": (
            15,
            16,
            17,
            18,
        ),
    },
    "DataFrame: frames of the target in a write": {
        "subqueries in any condition are supported": (9, 10, 11, 14),
    },
    "streams: joined with a table that changes": {
        "errors inside a stream have Spark's class for data sources in Python": (8,),
    },
    "streams: types that differ from the table's": {
        "other class for an overflow": (7,),
        "integers fit a `BOOLEAN` column": (
            9,
            10,
        ),
    },
    "DataFrame: managed tables whose directory has rows": {
        "Spark refuses the directory first, also for an overwrite": (
            1,
            3,
            5,
            7,
            9,
            10,
            11,
            15,
            17,
            19,
            21,
        ),
    },
}
