"""Primary and foreign keys, entered or read from SQL: checked against the schema, never enforced."""

import pytest

from engine.errors import RequestError
from lakeui.catalog.keys import Key, declare_key, missing_columns, parse_key
from tests.lakeui.factories import SCHEMA, make_table


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
def test_what_other_catalogues_print_is_understood(text, key):
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
    with pytest.raises(RequestError, match="primary key already"):
        declare_key(orders, Key(kind="primary", columns=("status",), name="other"), None)
    with pytest.raises(RequestError, match="called k already"):
        declare_key(
            orders, Key(kind="foreign", columns=("status",), name="k", references="s"), None
        )


def test_a_foreign_key_takes_the_other_tables_primary_key_and_knows_the_table(orders):
    customers = make_table("crm.customers", schema=SCHEMA)
    declare_key(customers, Key(kind="primary", columns=("customer_id",)), None)
    key = declare_key(
        orders, Key(kind="foreign", columns=("customer_id",), references="crm.customers"), None
    )
    assert key.referenced_table == customers
    assert key.referenced_columns == ["customer_id"]


def test_a_column_that_is_dropped_later_is_told(orders):
    key = declare_key(orders, Key(kind="primary", columns=("order_id", "status")), None)
    assert missing_columns(key) == ()
    orders.schema = {"type": "struct", "fields": SCHEMA["fields"][:1]}
    assert missing_columns(key) == ("status",)
