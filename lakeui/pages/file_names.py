"""Short names of data files for narrow lines."""

import re

_BY_THIS_ENGINE = re.compile(
    r"(part-\d{1,10})-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(-[0-9a-f]{4})[0-9a-f]{4}\."
)
_BY_SPARK = re.compile(r"(part-\d{1,10})(-[0-9A-Za-z]{4})?")
_SHOWN, _TOO_SHORT = 20, 3


def file_head(path: str) -> str:
    """Return the part of a name that identifies a file at a glance: `part-00017`.

    A write of one task calls all its files `part-00000`: the name then includes a part of its rest;
    for this
    engine's files, the part after the write's own id.
    """
    name = path.rpartition("/")[2]
    if match := _BY_THIS_ENGINE.match(name) or _BY_SPARK.match(name):
        task, rest = match.groups()
        return task if int(task.rpartition("-")[2]) else task + (rest or "")
    head = name.partition("-")[0]
    return head[:_SHOWN] if len(head) > _TOO_SHORT else name[: _SHOWN // 2]
