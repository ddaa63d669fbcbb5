"""`engine.delta.exceptions`, by another name."""

import sys

import engine.delta.exceptions
from engine.delta.exceptions import *  # noqa: F403 - for type checkers

sys.modules[__name__] = engine.delta.exceptions
