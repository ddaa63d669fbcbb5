"""Partition pruning finds the same files among a million as one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.expressions.parse import parse_condition
from engine.log.file_table import files_table
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.snapshot.data_skipping import Skipper
from engine.snapshot.scan import prune_partitions
from tests.engine.made_tables import add

COLUMNS = ("a", "b", "c")
SCHEMA = StructType(
    (
        StructField("a", STRING),
        StructField("b", LONG),
        StructField("c", STRING),
        StructField("x", LONG),
    )
)
VALUES = st.fixed_dictionaries(
    {
        "a": st.sampled_from([None, "p", "q"]),
        "b": st.sampled_from([None, "1", "2"]),
        "c": st.sampled_from([None, "", "r", "s"]),
    }
)


@pytest.mark.parametrize("repeated", [1, 40], ids=["few files", "many files"])
@pytest.mark.parametrize(
    "text",
    ["a = 'p' AND b > 1", "c IS NULL OR b = 1", "a = 'q' AND c = 's' AND x = 5", "b <=> NULL"],
)
@given(partitions=st.lists(VALUES, max_size=12))
def test_the_same_files_are_left_as_by_asking_each(repeated, text, partitions):
    condition = parse_condition(text, SCHEMA)
    adds = [add(f"f{number}", values) for number, values in enumerate(partitions * repeated)]
    pruned = prune_partitions(files_table(adds), condition, SCHEMA, COLUMNS, "none")
    skipper = Skipper(condition, SCHEMA, COLUMNS, "none")
    expected = [file.path for file in adds if skipper.may_match(file.partition_values, None)]
    assert pruned.column("path").to_pylist() == expected
