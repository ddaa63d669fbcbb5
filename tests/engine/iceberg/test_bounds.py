"""Bounds of the log as Iceberg's bounds: wide enough for the values they cover."""

import json

from pyiceberg.conversions import from_bytes
from pyiceberg.types import StringType, TimestamptzType

from engine.iceberg.data_files import IcebergFileShape, data_file
from engine.schema.column_mapping import assign_mapping
from engine.schema.types import STRING, TIMESTAMP, StructField, StructType
from tests.engine.made_tables import add

SCHEMA, _ = assign_mapping(
    StructType((StructField("name", STRING), StructField("at", TIMESTAMP))), keep_names=True
)
SHAPE = IcebergFileShape.build("/t", SCHEMA, ())
HOUR = 3_600_000_000


def _bounds(low: dict, high: dict, **stats: object):
    said = {"numRecords": 1, "minValues": low, "maxValues": high, **stats}
    made = data_file(add("a", stats=json.dumps(said)), SHAPE)
    return made.lower_bounds, made.upper_bounds


def test_a_truncated_maximum_of_a_text_stays_above_every_text_with_that_prefix():
    low, high = _bounds({"name": "a"}, {"name": "z" * 32 + "\ufffd"})
    assert from_bytes(StringType(), low[1]) == "a"
    assert from_bytes(StringType(), high[1]) > "z" * 32 + "\U0001f600"
    _, high = _bounds({"name": "a"}, {"name": "b"})
    assert from_bytes(StringType(), high[1]) == "b"


def test_bounds_of_times_are_widened_by_the_digits_that_their_texts_omit():
    text = "1960-01-01T00:00:00.000Z"
    low, high = _bounds({"at": text}, {"at": text})
    exact = -315_619_200_000_000
    assert from_bytes(TimestamptzType(), low[2]) <= exact - 999
    assert from_bytes(TimestamptzType(), high[2]) >= exact + 999
    lost = "1900-01-01T00:00:00.000+00:09"
    low, high = _bounds({"at": lost}, {"at": lost})
    assert from_bytes(TimestamptzType(), high[2]) - from_bytes(TimestamptzType(), low[2]) > 118e6
