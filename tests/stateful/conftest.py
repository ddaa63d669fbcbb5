"""Files of five rows are read faster by one thread than by a pool."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.engine.conftest import rows_elsewhere, spark

__all__ = ["rows_elsewhere", "spark"]


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    before = pa.cpu_count()
    pa.set_cpu_count(1)
    yield
    pa.set_cpu_count(before)
