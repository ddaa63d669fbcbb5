"""Exceptions under delta-spark's names and the engine's names: programs can catch either."""

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from engine import errors
from engine.delta import exceptions
from engine.delta.exceptions import delta_errors

FACTS = errors.ConflictFacts(
    table="/lake/t",
    read_version=1,
    attempted_version=2,
    rule="added_files",
    subclass="WITHOUT_HINT",
    current=errors.ConflictSide("DELETE"),
    winner=errors.ConflictSide("WRITE", 2),
    what="Version 2 added a file.",
)
CONFLICTS = [
    "MetadataChangedException",
    "ProtocolChangedException",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException",
]


def _catch_error(error):
    with pytest.raises(errors.EngineError) as caught, delta_errors():
        raise error
    return caught.value


@pytest.mark.parametrize("name", CONFLICTS)
def test_a_conflict_is_caught_by_deltas_name_and_by_the_engines(name):
    raised = _catch_error(getattr(errors, name)(FACTS))
    assert isinstance(raised, getattr(exceptions, name))
    assert isinstance(raised, getattr(errors, name))
    assert isinstance(raised, exceptions.DeltaConcurrentModificationException)
    assert raised.conflict is FACTS
    assert raised.getCondition() == raised.code
    assert "Version 2 added a file." in str(raised)


def test_a_conflict_without_a_class_of_its_own_is_a_concurrent_write():
    assert isinstance(
        _catch_error(errors.ConflictError(FACTS)), exceptions.ConcurrentWriteException
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.TableNotFoundError("There is none."), AnalysisException),
        (errors.ExpressionError("It cannot be."), AnalysisException),
        (errors.RetentionTooShortError("Too short."), IllegalArgumentException),
        (errors.InvalidPropertyError("No such value."), IllegalArgumentException),
        (errors.InvariantViolationError("A row breaks a rule."), PySparkException),
    ],
)
def test_an_error_is_also_of_the_kind_that_pyspark_has_for_it(error, kind):
    raised = _catch_error(error)
    assert isinstance(raised, kind)
    assert isinstance(raised, type(error))
    assert str(raised) == f"[{error.code}] {error}"
    assert raised.getSqlState() == error.sqlstate
    assert raised.facts()["remedy"] == error.remedy


def test_spark_errors_about_a_condition_are_raised_unchanged():
    told = AnalysisException("no such column")
    failed = errors.RequestError("Spark failed.")
    with pytest.raises(AnalysisException) as caught, delta_errors():
        raise failed from told
    assert caught.value is told


def test_an_error_without_its_facts_can_still_be_shown():
    kinds = [type(_catch_error(errors.RequestError("No."))), exceptions.ConcurrentAppendException]
    assert [str(kind.__new__(kind)) for kind in kinds] == ["", ""]
