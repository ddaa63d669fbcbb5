"""Commands that read other tables or their own, by queries as sources and by subqueries."""

import pytest

from engine.conflict_facts import RemedyKind
from engine.errors import ConflictError, EngineError, RequestError, TableNotFoundError
from engine.storage.uri import open_store
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.operations.conftest import IN_PROCESS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

ORDERS = (
    "VALUES (1, 10, 5.0), (1, 11, 7.5), (1, 15, 99.0), (2, 12, NULL), (3, 13, 1.0), (NULL, 14, 2.0)"
)
REWRITES = (
    "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false', 'delta.enableChangeDataFeed' = 'true')"
)


class _Meanwhile(TransactionObserver):
    def __init__(self, act) -> None:
        self._act = act

    def staged(self, txn) -> None:  # noqa: ARG002
        act, self._act = self._act, lambda: None
        act()


@pytest.fixture
def lake(do, empty_table, tmp_path):
    """Return `lake(sql)` over `t`, `orders` and tables that statements create; `lake.rows(name)` returns rows."""
    tables = {"t": empty_table}

    def resolve(name):
        if name not in tables:
            what = f"There is no table {name}."
            raise TableNotFoundError(what, "Register it.")
        return tables[name]

    def perform(sql, at="t", **options):
        table = tables.setdefault(at, DeltaTable(open_store(str(tmp_path / at))))
        return do(sql, table=table, resolve=resolve, **options)

    perform.rows = lambda name="t": sorted(
        (tuple(row.values()) for row in tables[name].snapshot().to_arrow().to_pylist()), key=repr
    )
    perform.table = lambda name: tables[name]
    columns = "(person BIGINT, id INT, amount DOUBLE)"
    perform(
        f"CREATE TABLE orders {columns} USING DELTA PARTITIONED BY (person) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "orders",
    )
    perform(f"INSERT INTO orders {ORDERS}", "orders")
    perform("DELETE FROM orders WHERE id = 15", "orders")
    assert any(add.deletion_vector for add in tables["orders"].snapshot().add_files())
    return perform


def _people(lake, layout=""):
    lake(f"CREATE TABLE t (id BIGINT, total DOUBLE) USING DELTA {layout}")
    lake("INSERT INTO t VALUES (1, 0), (2, 0), (3, NULL), (4, 9)", in_process_bytes=IN_PROCESS)


def test_tables_are_made_filled_and_merged_from_queries(lake):
    _people(lake)
    lake(
        "CREATE TABLE sums AS WITH paid AS (SELECT * FROM orders WHERE amount IS NOT NULL) "
        "SELECT person, count(*) AS n, sum(amount) AS total FROM paid GROUP BY person",
        "sums",
    )
    assert lake.rows("sums") == [(1, 2, 12.5), (3, 1, 1.0), (None, 1, 2.0)]
    lake("INSERT INTO t (total, id) SELECT s.total, s.person + 10 FROM sums s WHERE n > 1")
    assert lake.table("t").history(1)[0].is_blind_append is True
    lake(
        "INSERT INTO t SELECT id, amount FROM orders o WHERE NOT EXISTS "
        "(SELECT 1 FROM t WHERE t.id = o.person) AND person IS NULL"
    )
    assert lake.table("t").history(1)[0].is_blind_append is False
    assert lake.rows() == [(1, 0.0), (11, 12.5), (14, 2.0), (2, 0.0), (3, None), (4, 9.0)]
    lake(
        "MERGE INTO t USING (SELECT * EXCEPT (rn) FROM (SELECT person AS id, amount AS total, "
        "row_number() OVER (PARTITION BY person ORDER BY id DESC) AS rn FROM orders) WHERE rn = 1) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert lake.rows() == [
        (1, 7.5),
        (11, 12.5),
        (14, 2.0),
        (2, None),
        (3, 1.0),
        (4, 9.0),
        (None, 2.0),
    ]
    lake("INSERT OVERWRITE t SELECT id, total FROM t WHERE id > 3 UNION ALL SELECT 0, NULL")
    assert lake.rows() == [(0, None), (11, 12.5), (14, 2.0), (4, 9.0)]
    lake("INSERT INTO t REPLACE WHERE id > 10 WITH a AS (SELECT 12 AS id) SELECT id, 1.0 FROM a")
    assert lake.rows() == [(0, None), (12, 1.0), (4, 9.0)]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT nothing, 1 FROM orders", "no column nothing"),
        ("SELECT o.id FROM orders o JOIN missing m ON o.id = m.id", "no table missing"),
        ("SELECT person, id, amount FROM orders", "3 columns, but the table has 2"),
        ("SELECT id, person FROM orders a, orders b", "ambiguous: it is in a, b"),
    ],
)
def test_errors_in_a_query_are_named(lake, sql, why):
    lake("CREATE TABLE t (id BIGINT, total DOUBLE) USING DELTA")
    with pytest.raises(EngineError, match=why):
        lake(f"INSERT INTO t {sql}")
    with pytest.raises(RequestError, match="called id"):
        lake("INSERT INTO t BY NAME SELECT id, person AS ID FROM orders")


@pytest.mark.parametrize("layout", ["", REWRITES])
def test_rows_are_chosen_by_subqueries(lake, layout):
    _people(lake, layout)
    result = lake("DELETE FROM t WHERE id NOT IN (SELECT person FROM orders)")
    assert result.version is None  # one person is null: no row is known not to be among them
    lake(
        "UPDATE t SET total = 100 WHERE EXISTS (SELECT 1 FROM orders o WHERE o.person = t.id) "
        "AND total < (SELECT max(amount) FROM orders)"
    )
    assert lake.rows() == [(1, 100.0), (2, 100.0), (3, None), (4, 9.0)]
    lake(
        "DELETE FROM t WHERE total = (SELECT max(total) FROM t) AND id NOT IN "
        "(SELECT person FROM orders WHERE person > 1)"
    )
    assert lake.rows() == [(2, 100.0), (3, None), (4, 9.0)]
    info = lake.table("t").history(1)[0]
    assert "SELECT max(total) FROM t" in str(info.operation_parameters["predicate"])
    plan = lake("DELETE FROM t WHERE id IN (SELECT person FROM orders)", dry_run=True).plan
    assert plan.file_count >= 1


def test_a_querys_reads_of_its_own_table_conflict_with_changes_of_them(lake):
    _people(lake)
    race = [
        ("INSERT INTO t SELECT max(id) + 1, 0.0 FROM t", "DELETE FROM t WHERE id = 4", True),
        ("INSERT INTO t VALUES (20, 0)", "INSERT INTO t VALUES (21, 0)", False),
        ("INSERT INTO t SELECT id, 1.0 FROM t WHERE id = 1", "DELETE FROM t WHERE id = 2", False),
        (
            "INSERT INTO t SELECT 20, 1.0 WHERE 3 IN (SELECT id FROM t)",
            "DELETE FROM t WHERE id = 3",
            True,
        ),
        (
            "DELETE FROM t WHERE id IN (SELECT person FROM orders)",
            "INSERT INTO t VALUES (1, 1)",
            False,
        ),
        (
            "UPDATE t SET total = 5 WHERE id = (SELECT max(id) FROM t)",
            "DELETE FROM t WHERE id = 1",
            True,
        ),
        (
            "UPDATE t SET total = (SELECT count(*) FROM t) WHERE id = 20",
            "DELETE FROM t WHERE id = 21",
            True,
        ),
    ]
    for first, second, loses in race:
        observer = _Meanwhile(lambda second=second: lake(second))
        if loses:
            with pytest.raises(ConflictError) as raised:
                lake(first, observer=observer)
            kinds = {remedy.kind for remedy in raised.value.conflict.remedies}
            narrowed = first.startswith("UPDATE")  # it has a condition: a value reads every row
            assert not (narrowed and RemedyKind.ADD_CONDITION in kinds), first
        else:
            assert lake(first, observer=observer).version is not None


def test_a_table_is_read_as_it_was_at_a_time(lake):
    _people(lake)
    orders = lake.table("orders")
    moment = orders.snapshot(version=1).timestamp.isoformat()
    then = f"orders TIMESTAMP AS OF '{moment}'"
    assert orders.snapshot().row_count == orders.snapshot(version=1).row_count - 1
    lake(f"INSERT INTO t SELECT 100 + count(*), 0.0 FROM {then}")  # noqa: S608 - a time
    lake(f"DELETE FROM t WHERE id = (SELECT 100 + count(*) FROM {then})")  # noqa: S608 - a time
    assert [row[0] for row in lake.rows() if row[0] and row[0] > 100] == []
    added = lake.table("t").history(2)[1].operation_metrics
    assert added is not None
    assert added["numOutputRows"] == "1"


def test_its_own_table_is_its_own_under_the_name_of_a_link_too(lake, tmp_path):
    _people(lake)
    (tmp_path / "link").symlink_to(lake.table("t").uri)
    lake("ALTER TABLE t SET TBLPROPERTIES ('note' = 'x')", "link")
    observer = _Meanwhile(lambda: lake("DELETE FROM t WHERE id = 4"))
    with pytest.raises(ConflictError):
        lake("INSERT INTO t SELECT max(id) + 1, 0.0 FROM link", observer=observer)
    lake("INSERT INTO t SELECT max(id) + 1, 0.0 FROM link")
    assert lake.table("t").history(1)[0].is_blind_append is False


def test_clauses_of_a_merge_ask_other_tables(lake):
    _people(lake)
    lake(
        "MERGE INTO t USING (SELECT DISTINCT person AS id, 7.0 AS total FROM orders) s "
        "ON t.id = s.id "
        "WHEN MATCHED AND EXISTS (SELECT 1 FROM orders o WHERE o.person = t.id AND o.amount > s.total) "
        "THEN UPDATE SET total = 50 "
        "WHEN MATCHED AND t.id NOT IN (SELECT person FROM orders WHERE amount >= 1) THEN DELETE "
        "WHEN NOT MATCHED AND s.id IS NULL AND 14 IN (SELECT o.id FROM orders o) THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.total = (SELECT max(total) FROM t) THEN DELETE"
    )
    assert lake.rows() == [(1, 50.0), (2, 0.0), (3, None), (None, 7.0)]


@pytest.mark.parametrize("layout", ["", REWRITES])
def test_values_are_queried_from_other_tables_and_its_own(lake, layout):
    _people(lake, layout)
    lake(
        "UPDATE t SET total = coalesce((SELECT sum(o.amount) FROM orders o WHERE o.person = t.id), "
        "(SELECT max(total) FROM t)) WHERE id <> 4"
    )
    assert lake.rows() == [(1, 12.5), (2, 9.0), (3, 1.0), (4, 9.0)]
    lake(
        "MERGE INTO t USING (SELECT 1 AS id UNION ALL SELECT 5) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET total = t.total + "
        "(SELECT count(*) FROM orders o WHERE o.person = s.id AND t.total > 1) "
        "WHEN NOT MATCHED THEN INSERT (id, total) "
        "VALUES (s.id, (SELECT min(o.amount) FROM orders o WHERE o.id > s.id)) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN UPDATE SET total = (SELECT sum(total) FROM t)"
    )
    assert lake.rows() == [(1, 14.5), (2, 31.5), (3, 1.0), (4, 9.0), (5, 1.0)]
    with pytest.raises(EngineError):
        lake("UPDATE t SET total = (SELECT amount FROM orders)")
