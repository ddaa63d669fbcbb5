"""Which names of columns a decoder of statistics can be made for."""

import re

_UNFIT = re.compile(r'[\x00-\x1f"\\]')


def can_be_decoded(physical_name: str) -> bool:
    """Whether it may stand in JSON as it is, which msgspec asks of a struct's fields."""
    return _UNFIT.search(physical_name) is None
