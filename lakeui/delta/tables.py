"""`engine.delta.tables`, by another name."""

import sys

import engine.delta.tables
from engine.delta.tables import *  # noqa: F403 - for type checkers

sys.modules[__name__] = engine.delta.tables
