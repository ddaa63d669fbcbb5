"""Exceptions of delta-spark itself, caught by this API's names on both kinds of session."""

import json
import subprocess
import sys

import pyspark.sql.connect.client.core as connect
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from pyspark.errors.exceptions import captured
from pyspark.errors.exceptions.connect import AnalysisException

from engine import errors
from engine.delta.connect import exceptions
from engine.delta.exceptions import jvm_exceptions as conversion
from tests.engine.delta.test_exceptions import CONFLICTS

GENERAL = "io.delta.exceptions.DeltaConcurrentModificationException"


def _convert_server_error(*classes, **metadata):
    info = ErrorInfo(reason=classes[0], metadata={"classes": json.dumps(classes), **metadata})
    return connect.convert_exception(info, "Files were added.", None)


@pytest.mark.parametrize("name", [*CONFLICTS, "ConcurrentWriteException"])
def test_a_conflict_of_the_server_has_its_name_and_its_facts(name):
    raised = _convert_server_error(
        f"io.delta.exceptions.{name}",
        GENERAL,
        errorClass="DELTA_CONCURRENT_APPEND",
        sqlState="2D521",
        messageParameters='{"partition": "day=1"}',
    )
    assert isinstance(raised, getattr(exceptions, name))
    assert isinstance(raised, errors.ConflictError)
    assert isinstance(raised, exceptions.DeltaConcurrentModificationException)
    assert str(raised) == raised.getMessage() == "Files were added."
    assert raised.getMessageParameters() == {"partition": "day=1"}
    assert raised.conflict is None
    assert raised.facts() == {
        "code": "DELTA_CONCURRENT_APPEND",
        "sqlstate": "2D521",
        "message": "Files were added.",
        "exception": name,
    }


def test_a_conflict_of_no_known_kind_is_a_concurrent_modification():
    raised = _convert_server_error(GENERAL)
    assert type(raised).__name__ == "DeltaConcurrentModificationException"
    assert isinstance(raised, exceptions.DeltaConcurrentModificationException)


def test_errors_that_are_no_conflicts_keep_their_class():
    raised = _convert_server_error("org.apache.spark.sql.AnalysisException", errorClass="A")
    assert type(raised) is AnalysisException


def test_exceptions_that_pyspark_does_not_know_are_not_hidden():
    unknown = captured.UnknownException.__new__(captured.UnknownException)
    unknown.__dict__.update(_desc="io.delta: lost", _stackTrace="at", _cause=None, _origin=None)
    raised = conversion._recast(exceptions.ConcurrentAppendException, unknown, "")
    assert isinstance(raised, captured.CapturedException)
    assert not isinstance(raised, captured.UnknownException)
    assert raised._desc == "io.delta: lost"


def test_the_names_of_another_package_stay(monkeypatch):
    class Theirs(captured.CapturedException):
        def __init__(self):
            """Do without a JVM."""

    Theirs.__module__ = "delta.exceptions.captured"
    theirs = Theirs()

    class Module:
        convert_exception = staticmethod(lambda error: theirs)  # noqa: ARG005

    monkeypatch.setitem(conversion.sys.modules, "a_module", Module)
    classes = lambda error: (["io.delta.exceptions.ConcurrentAppendException"], "")  # noqa: ARG005, E731
    conversion._wrap("a_module", {"ConcurrentAppendException": ValueError}, classes)
    assert Module.convert_exception(None) is theirs


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (
            "import pyspark.util, engine.delta, sys;"
            "module = sys.modules['engine.delta.exceptions.jvm_exceptions'];"
            "convert = pyspark.errors.exceptions.captured.convert_exception;"
            "print(module._delta_exception_patched, convert.__module__)",
            "True engine.delta.exceptions.jvm_exceptions",
        ),
        (
            "import engine.delta, sys; print('pyspark' in sys.modules);"
            "print(engine.delta.exceptions.ConcurrentAppendException.__name__)",
            "False\nConcurrentAppendException",
        ),
    ],
)
def test_importing_the_package_beside_spark_installs_the_names(program, printed):
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == printed
