"""Tolerance for the clocks of hosts that write here."""

from datetime import timedelta

CLOCKS_DIFFER = timedelta(minutes=1)
"""The largest difference between synchronized clocks."""
