"""The integers of the log: what does not fit in 64 bits is refused where it is read."""

from typing import Annotated

import msgspec

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
