"""Differences between versions, read from mirrored commits, and their meaning for clients."""

import json

import pytest

from lakeui.catalog.definitions import section
from lakeui.catalog.differences import change_of, difference
from tests.lakeui.factories import SCHEMA, make_commit, make_table

READER_3 = {"minReaderVersion": 3, "minWriterVersion": 7}


@pytest.fixture
def table(db):
    return make_table(version=3)


def define_commit(table, version, *, properties=None, schema=SCHEMA, features=None):
    """Return a commit whose raw lines define the table, as a writer would leave them."""
    lines = [{"commitInfo": {}}]
    if properties is not None:
        metadata = {"id": "x", "schemaString": json.dumps(schema), "configuration": properties}
        lines.append({"metaData": metadata})
    if features is not None:
        lines.append(
            {"protocol": READER_3 | {"readerFeatures": features, "writerFeatures": features}}
        )
    raw = "".join(json.dumps(line) + "\n" for line in lines)
    return make_commit(
        table, version, "SET TBLPROPERTIES", raw=raw, raw_bytes=len(raw), files_added=0,
        changes_metadata=properties is not None, changes_protocol=features is not None,
        changes_data=False,
    )  # fmt: skip


def test_a_protocol_upgrade_names_the_readers_it_locks_out(table):
    define_commit(table, 1, properties={}, features=["timestampNtz"])
    define_commit(table, 2, features=["timestampNtz", "deletionVectors"])
    define_commit(table, 3, features=["timestampNtz", "deletionVectors", "v2Checkpoint"])
    comparison = difference(table, 1, 2)
    assert comparison.protocol_versions == (2,)
    assert "do not support deletionVectors can no longer read" in comparison.effects[0]
    assert "v2Checkpoint" not in comparison.effects[0]


def test_a_dropped_column_breaks_queries_that_name_it(table):
    fewer = SCHEMA | {"fields": [f for f in SCHEMA["fields"] if f["name"] != "channel"]}
    define_commit(table, 1, properties={})
    define_commit(table, 2, properties={}, schema=fewer)
    define_commit(table, 3, properties={}, schema=SCHEMA)
    assert "Queries that use channel now fail." in difference(table, 1, 2).effects
    assert any("have null in channel" in effect for effect in difference(table, 2, 3).effects)


def test_a_property_that_matters_is_explained_and_open_writes_are_warned_of(table):
    define_commit(table, 1, properties={})
    define_commit(table, 2, properties={"delta.appendOnly": "true", "color": "mauve"})
    define_commit(table, 3, properties={})
    effects = difference(table, 1, 2).effects
    assert any("DELETE, UPDATE and MERGE are refused" in effect for effect in effects)
    assert any("Writes that were running at the commit of v2" in effect for effect in effects)


def test_a_span_that_changed_no_definition_has_no_effects(table):
    define_commit(table, 1, properties={})
    make_commit(table, 2, "OPTIMIZE", changes_data=False)
    comparison = difference(table, 1, 2)
    assert (comparison.effects, comparison.data_versions) == ((), 0)


def test_one_version_is_compared_with_the_definition_before_it(table):
    define_commit(table, 1, properties={"keep": "7 days"})
    make_commit(table, 2)
    commit = define_commit(table, 3, properties={"keep": "14 days"})
    [changed] = change_of(commit).changed
    assert [(line.sign, line.text) for line in changed.lines] == [
        ("-", "keep = 7 days"), ("+", "keep = 14 days"),
    ]  # fmt: skip
    assert change_of(table.commits.get(version=2)) is None


def test_a_version_that_makes_a_clustered_table_says_by_which_columns(table):
    made = define_commit(table, 0, properties={}, features=["clustering"])
    domain = {"domain": "delta.clustering", "removed": False}
    names = json.dumps({"clusteringColumns": [["order_date"], ["channel"]]})
    made.raw += json.dumps({"domainMetadata": domain | {"configuration": names}}) + "\n"
    made.save()
    layout = next(part for part in change_of(made).sections if part.name == "Layout")
    said = [line.text for line in layout.lines]
    assert said == ["not partitioned", "clustered by order_date, channel"]
    define_commit(table, 1, properties={"color": "mauve"})
    later = change_of(table.commits.get(version=1))
    assert [part.name for part in later.changed] == ["Properties"]


def test_the_changes_of_a_version_are_not_guessed_where_nothing_before_it_is_kept(table):
    change = change_of(define_commit(table, 2, properties={"keep": "7 days"}))
    assert change.sections is None
    assert "does not have the definition" in change.gap


def test_lines_far_from_a_change_are_left_out_and_counted():
    before = [f"column_{n} long" for n in range(20)]
    after = [*before[:10], "column_10 string", *before[11:]]
    near = [(line.sign, line.text) for line in section("Schema", before, after).near]
    assert near[0] == ("…", "8 unchanged")
    assert ("-", "column_10 long") in near
    assert near[-1] == ("…", "7 unchanged")
    assert len(near) == 8


@pytest.mark.timeout(20)
def test_hundreds_of_columns_may_change_in_one_version(table):
    def schema(kind):
        names = [f"column_{n:03}" for n in range(600)]
        return {"type": "struct", "fields": [column(name, kind) for name in names]}

    def column(name, kind):
        return {"name": name, "type": kind, "nullable": True, "metadata": {}}

    define_commit(table, 1, properties={}, schema=schema("integer"))
    define_commit(table, 2, properties={}, schema=schema("long"))
    table.version = 3
    table.save()
    define_commit(table, 3, properties={}, schema=schema("string"))
    [changed] = change_of(table.commits.get(version=2)).changed
    assert sum(line.sign == "+" for line in changed.lines) == 600
    [effect] = [text for text in difference(table, 1, 2).effects if "nullability" in text]
    assert "column_019 and 580 more changed its type" in effect
