"""Search: columns, writers and transactions beside tables, versions, jobs and conflicts."""

import json
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from engine.schema.types import LONG, STRING, StructField, StructType
from lakeui.catalog.models import TableGrant
from lakeui.catalog.roles import Role
from lakeui.monitoring.search import search
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table, make_user

pytestmark = pytest.mark.django_db
TXN = "0fabc901-1111-4222-8333-444455556666"


@pytest.fixture
def owner():
    return make_user("owner", Role.ADMIN)


@pytest.fixture
def orders():
    inside = StructType((StructField("zip_code", LONG),))
    schema = StructType((StructField("Überweisung", STRING), StructField("address", inside)))
    table = make_table("sales.orders", version=2, schema=json.loads(schema.to_json()), last_writer="nightly-load")  # fmt: skip
    make_commit(table, 1, "WRITE", user_name="Gdpr-Eraser", txn_id=TXN)
    make_commit(table, 2, "WRITE", user_name="nightly-load", txn_id=str(uuid4()).replace("0", "1"))
    return table


def test_columns_are_found_by_a_part_of_their_dotted_name(owner, orders):
    assert [(c.path, c.type) for c in search(owner, "zip").columns] == [
        ("address.zip_code", "long")
    ]
    assert [c.path for c in search(owner, "Überw").columns] == ["Überweisung"]
    assert search(owner, "z").columns == []


def test_writers_are_found_with_their_latest_version(owner, orders):
    (writer,) = search(owner, "gdpr").writers
    assert (writer.name, writer.table, writer.version) == ("Gdpr-Eraser", orders, 1)
    assert [w.version for w in search(owner, "nightly").writers] == [2]


@pytest.mark.parametrize("text", [TXN, TXN[:4], TXN[:9], TXN.upper(), TXN[:8]])
def test_a_transaction_is_found_by_its_id_or_its_first_digits(owner, orders, text):
    assert [commit.version for commit in search(owner, text).versions] == [1]


@pytest.mark.parametrize("text", ["0fa", "0fac", "fabc", TXN[:-1] + "7"])
def test_other_digits_find_no_transaction(owner, orders, text):
    assert search(owner, text).versions == []


def test_an_index_finds_the_first_digits_of_a_transaction(owner, orders):
    with CaptureQueriesContext(connection) as asked:
        search(owner, TXN[:6])
    query = next(q["sql"] for q in asked if 'catalog_commit"."txn_id" >=' in q["sql"])
    if connection.vendor != "sqlite":
        pytest.skip("a plan as SQLite words it")
    with connection.cursor() as cursor:
        plan = str(cursor.execute(f"EXPLAIN QUERY PLAN {query}").fetchall())
    assert "commit_by_txn" in plan


def test_columns_and_writers_of_hidden_tables_are_not_found(orders):
    stranger = make_user("stranger")
    for text in ("zip", "gdpr", TXN):
        assert search(stranger, text).count == 0
    TableGrant.objects.create(table=orders, user=stranger, role=Role.VIEWER)
    assert search(make_user("other"), "gdpr").count == 0
    assert [w.name for w in search(stranger, "gdpr").writers] == ["Gdpr-Eraser"]


def test_a_table_is_found_by_parts_of_its_name_in_any_order(owner, orders):
    make_table("sales.returns")
    for text in ("sales orders", "ORD sal", "sales.orders", "demo-lake orders"):
        assert [table.name for table in search(owner, text).tables] == ["sales.orders"], text
    assert search(owner, "sales nothing").tables == []


def test_a_job_is_found_by_the_first_digits_of_its_id_and_by_words_of_its_error(owner, orders):
    failed = make_job(
        orders, state="failed", error_code="LAKE_BAD_ROWS",
        error_message="customers.csv holds 4 rows that do not fit: line 118 has 'n/a' for a number.",
    )  # fmt: skip
    other = make_job(orders)
    for job in (failed, other):
        for text in (
            str(job.pk)[:8],
            str(job.pk)[:13],
            str(job.pk),
            job.pk.hex,
            str(job.pk).upper(),
        ):
            assert job in search(owner, text).jobs, text
    for text in ("LAKE_BAD_ROWS", "bad_rows", "rows fit line", "customers n/a"):
        assert search(owner, text).jobs == [failed], text


def test_a_conflict_is_found_by_its_code_its_subclass_and_words_of_its_message(owner, orders):
    conflict = make_conflict(orders)
    for text in (
        "DELTA_CONCURRENT_DELETE_READ", "DELTA_CONCURRENT_DELETE_READ.ROW_LEVEL_CHANGES",
        "row_level_changes", "deleted reading changes", f"c-{conflict.pk}",
    ):  # fmt: skip
        assert search(owner, text).conflicts == [conflict], text
    assert search(owner, "DELTA_CONCURRENT_APPEND.ROW_LEVEL_CHANGES").conflicts == []
