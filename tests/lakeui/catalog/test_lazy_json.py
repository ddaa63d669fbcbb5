"""A schema is decoded on first use, and otherwise behaves like any JSON of a row."""

import pytest

from lakeui.catalog.models import Table
from tests.lakeui.factories import SCHEMA, make_table

pytestmark = pytest.mark.django_db


def test_a_row_read_for_its_name_decodes_no_schema():
    make_table("t")
    row = Table.objects.get()
    assert row.name == "t"
    assert isinstance(row.__dict__["schema"], str)
    assert row.schema == SCHEMA
    assert row.schema is row.schema


def test_a_value_that_is_set_is_read_and_saved():
    make_table("t")
    row = Table.objects.get()
    row.schema = {"type": "struct", "fields": []}
    assert row.schema["fields"] == []
    row.save()
    assert Table.objects.get().schema == {"type": "struct", "fields": []}


def test_a_row_saved_without_reading_its_schema_keeps_it():
    make_table("t")
    row = Table.objects.get()
    row.description = "x"
    row.save()
    assert Table.objects.get().schema == SCHEMA


def test_a_schema_left_out_of_the_query_is_fetched_on_use():
    make_table("t")
    row = Table.objects.defer("schema").get()
    assert "schema" not in row.__dict__
    assert row.schema == SCHEMA
    row.refresh_from_db()
    assert row.schema == SCHEMA


def test_tables_can_be_filtered_by_a_field_of_the_schema():
    make_table("t")
    assert Table.objects.filter(schema__type="struct").count() == 1
