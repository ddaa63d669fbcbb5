"""Primary and foreign keys, entered or read from SQL: checked against the schema, never enforced."""

from dataclasses import replace

import pytest

from engine.errors import RequestError
from lakeui.catalog.keys import Key, declare_key, list_missing_columns, parse_key
from lakeui.catalog.roles import Role
from tests.lakeui.factories import SCHEMA, grant, make_table, make_user
from tests.lakeui.page_client import PageClient


@pytest.fixture
def orders(db):
    return make_table("sales.orders", schema=SCHEMA)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (
            "ALTER TABLE main.sales.orders ADD CONSTRAINT orders_pk PRIMARY KEY (order_id) NOT ENFORCED",
            Key(kind="primary", columns=("order_id",), name="orders_pk"),
        ),
        ("primary key(a , `b c`)", Key(kind="primary", columns=("a", "b c"))),
        (
            "CONSTRAINT pk PRIMARY KEY (id, at TIMESERIES) RELY;",
            Key(kind="primary", columns=("id", "at"), name="pk"),
        ),
        (
            "ALTER TABLE o ADD CONSTRAINT `to c` FOREIGN KEY (customer_id) REFERENCES crm.customers "
            "(id) NOT ENFORCED NORELY",
            Key(
                kind="foreign",
                columns=("customer_id",),
                name="to c",
                references="crm.customers",
                referenced_columns=("id",),
            ),
        ),
        ("FOREIGN KEY (x) REFERENCES `a.b`", Key(kind="foreign", columns=("x",), references="a.b")),
    ],
)
def test_key_definitions_of_other_catalogs_are_understood(text, key):
    assert parse_key(text) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0)",
        "PRIMARY KEY ()",
        "PRIMARY KEY (a) ENFORCED",
        "FOREIGN KEY (a)",
        "PRIMARY KEY (a); DROP TABLE t",
        "PRIMARY KEY (" + "a, " * 3000 + "a)",
    ],
)
def test_other_statements_are_refused_with_the_way_out(text):
    with pytest.raises(RequestError) as refused:
        parse_key(text)
    assert refused.value.field == "sql"


def test_columns_are_spelt_as_in_the_schema(orders):
    key = declare_key(orders, Key(kind="primary", columns=("ORDER_ID",)), None)
    assert key.columns == ["order_id"]
    assert key.name == "orders_pk"
    assert key.statement == "CONSTRAINT orders_pk PRIMARY KEY (order_id) NOT ENFORCED"


@pytest.mark.parametrize(
    ("key", "field"),
    [
        (Key(kind="primary", columns=("nowhere",)), "columns"),
        (Key(kind="primary", columns=()), "columns"),
        (Key(kind="primary", columns=("status", "STATUS")), "columns"),
        (Key(kind="foreign", columns=("status",)), "references"),
        (
            Key(
                kind="foreign",
                columns=("status",),
                references="elsewhere",
                referenced_columns=("a", "b"),
            ),
            "referenced_columns",
        ),
    ],
)
def test_a_key_that_does_not_fit_names_the_field(orders, key, field):
    with pytest.raises(RequestError) as refused:
        declare_key(orders, key, None)
    assert refused.value.field == field
    assert not orders.keys.exists()


def test_a_table_has_one_primary_key_and_no_name_twice(orders):
    declare_key(orders, Key(kind="primary", columns=("order_id",), name="k"), None)
    with pytest.raises(RequestError, match="already has a primary key"):
        declare_key(orders, Key(kind="primary", columns=("status",), name="other"), None)
    with pytest.raises(RequestError, match="already has a key called k"):
        declare_key(
            orders, Key(kind="foreign", columns=("status",), name="k", references="s"), None
        )


def test_a_foreign_key_uses_the_other_tables_primary_key_and_links_the_table(orders):
    customers = make_table("crm.customers", schema=SCHEMA)
    declare_key(customers, Key(kind="primary", columns=("customer_id",)), None)
    key = declare_key(
        orders, Key(kind="foreign", columns=("customer_id",), references="crm.customers"), None
    )
    assert key.referenced_table == customers
    assert key.referenced_columns == ["customer_id"]


def test_a_key_column_that_is_dropped_later_is_reported(orders):
    key = declare_key(orders, Key(kind="primary", columns=("order_id", "status")), None)
    assert list_missing_columns(key) == ()
    orders.schema = {"type": "struct", "fields": SCHEMA["fields"][:1]}
    assert list_missing_columns(key) == ("status",)


def test_a_key_is_rendered_as_sql_whatever_its_names(orders):
    orders.schema = {"type": "struct", "fields": [{"name": "a) NOT ENFORCED; --", "type": "long"}]}
    key = declare_key(
        orders, Key(kind="primary", columns=("a) NOT ENFORCED; --",), name="to c"), None
    )
    assert key.statement == "CONSTRAINT `to c` PRIMARY KEY (`a) NOT ENFORCED; --`) NOT ENFORCED"
    assert parse_key(key.statement).columns == ("a) NOT ENFORCED; --",)


@pytest.fixture
def salaries(db):
    """Return a table with a primary key that a maintainer of the orders may not see."""
    table = make_table("hr.salaries", schema=SCHEMA)
    declare_key(table, Key(kind="primary", columns=("customer_id",)), None)
    return table


@pytest.fixture
def guest(orders):
    user = make_user("guest")
    grant(user, orders, Role.MAINTAINER)
    return user


@pytest.mark.parametrize("columns", [(), ("order_id",), ("no_such_column",)])
def test_a_key_reveals_nothing_of_a_hidden_table(orders, salaries, guest, columns):
    def declare(other):
        asked = Key(
            kind="foreign", columns=("order_id",), references=other, referenced_columns=columns
        )
        return declare_key(orders, replace(asked, name=other), guest)

    hidden, absent = declare(salaries.name), declare("no.such")
    assert hidden.referenced_columns == absent.referenced_columns == list(columns)
    assert (hidden.referenced_table, absent.referenced_table) == (None, None)


def test_a_key_that_another_declared_names_no_table_that_its_reader_may_not_see(
    orders, salaries, guest
):
    asked = Key(kind="foreign", columns=("order_id",), references=salaries.name, name="to_other")
    declare_key(orders, asked, make_user("owner", Role.ADMIN))
    pages = [f"/tables/{orders.pk}/", f"/tables/{orders.pk}/schema/"]
    rest = [f"/api/v1/tables/{orders.pk}/schema/", f"/api/v1/tables/{orders.pk}/keys/"]
    client = PageClient()
    client.force_login(guest)
    told = {path: client.get(path).content.decode() for path in pages + rest}
    assert [path for path, body in told.items() if "salaries" in body] == []
    assert all("table that you may not see" in body for body in told.values())
    grant(guest, salaries, Role.VIEWER)
    assert all("hr.salaries" in client.get(path).content.decode() for path in pages + rest)
