"""Fixtures for histories on Spark, which share the session of the engine's tests."""

from tests.engine.conftest import rows_elsewhere, spark

__all__ = ["rows_elsewhere", "spark"]
