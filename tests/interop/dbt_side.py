"""Fixtures for dbt-spark's own tests, in place of those that skip what a session without Delta lacks.

`tests/clients.py` copies this file and the cases of `dbt_cases.py` to dbt-spark's tests.
"""

import pytest


@pytest.fixture(autouse=True)
def skip_by_profile_type():
    """Skip nothing: this session has Delta tables."""


@pytest.fixture(scope="class")
def profile_user() -> str:
    """Return nobody: a session has no user."""
    return ""
