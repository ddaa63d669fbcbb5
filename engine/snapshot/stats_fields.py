"""Column names supported by decoders of statistics."""

import re

_UNFIT = re.compile(r'[\x00-\x1f"\\]')


def can_be_decoded(physical_name: str) -> bool:
    """Return whether the name needs no escapes in JSON, as msgspec requires of struct fields."""
    return _UNFIT.search(physical_name) is None
