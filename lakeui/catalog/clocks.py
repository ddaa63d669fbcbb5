"""How far the clocks of the hosts that write here are trusted."""

from datetime import timedelta

CLOCKS_DIFFER = timedelta(minutes=1)
"""So much at most, of hosts whose clocks are kept."""
