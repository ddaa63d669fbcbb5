"""The names of `delta.connect.tables`: the classes are those of a classic session."""

from engine.delta.tables import *  # noqa: F403 - the same names
from engine.delta.tables import __all__ as __all__
