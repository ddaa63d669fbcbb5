"""Names: functions start with verbs or are nouns, and each class name is unique."""

from collections import defaultdict

import pytest

from tests.readability import (
    HOUSES,
    PRODUCT,
    NamedFunction,
    iter_classes,
    iter_functions,
    name_fault,
)

# Delta's exceptions stand in `engine.errors` and, as delta-spark's, in `engine.delta.exceptions`;
# `DeltaTable` is the front door of both; the REST client is a program of its own.
TWICE_BY_CONTRACT = {
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "DeltaTable",
    "MetadataChangedException",
    "ProtocolChangedException",
}
pytestmark = pytest.mark.xdist_group("words")  # one process parses every file, once
CLIENT = "lakeui/client/"
FRAMEWORK_NAMES = {"Command", "Meta"}  # Django finds both by these names


def test_no_function_is_named_by_a_participle_or_a_preposition():
    faults = [
        f"{function.path}:{function.line} {fault}"
        for function in iter_functions(*HOUSES)
        if (fault := name_fault(function))
    ]
    assert not faults


def test_every_class_has_a_name_of_its_own():
    places = defaultdict(list)
    for one in iter_classes(*PRODUCT):
        if not (one.is_nested or one.path.startswith(CLIENT) or one.name in FRAMEWORK_NAMES):
            places[one.name].append(f"{one.path}:{one.line}")
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert twice.keys() == TWICE_BY_CONTRACT, {
        name: where for name, where in twice.items() if name not in TWICE_BY_CONTRACT
    }


@pytest.mark.parametrize(
    ("name", "is_fault"),
    [
        ("_delivered", True),
        ("resolved_rows", True),
        ("of_winner", True),
        ("_at_version", True),
        ("naming", True),
        ("to", True),
        ("find_winner", False),
        ("row_count", False),
        ("from_json", False),
        ("to_arrow", False),
        ("need", False),
        ("bring_back", False),
        ("string_of", False),
        ("mapping_mode", False),
        ("split_bins", False),
    ],
)
def test_a_name_is_judged_by_its_first_word(name, is_fault):
    function = NamedFunction("m.py", 1, name, is_property=False, is_method=False)
    assert bool(name_fault(function)) is is_fault
