"""One sweep for all tests here; the table of results goes into docs/interoperability.md."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.conftest import spark as spark  # the engine's own side is judged by Spark too
from tests.interop.fetch import OutOfReachError, fetch_delta_spark
from tests.interop.report import write_report
from tests.interop.sweep import Sweep, run_sweep

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interoperability.md"


@pytest.fixture(scope="session")
def sweep() -> Iterator[Sweep]:
    try:
        peer = fetch_delta_spark()
    except OutOfReachError as reason:
        pytest.skip(str(reason))
    result = run_sweep(peer)
    write_report(result, PAGE)
    return result
