"""Search for a history that no allowed order explains.

`python -m tests.stateful.hunt FIRST LAST` exits with 1 and names the seed if it finds one, and
with 0 otherwise.
"""

import sys

import pyarrow as pa

from tests.stateful.judge import is_sound
from tests.stateful.properties import is_looked_into
from tests.stateful.surroundings import history_of


def hunt(first: int, last: int) -> int | None:
    """Return the first seed of an unsound history, or None."""
    return next((seed for seed in range(first, last) if _is_unsound(seed)), None)


def _is_unsound(seed: int) -> bool:
    versions = is_looked_into(seed)
    try:
        return is_sound(history_of(seed), elsewhere=False, versions=versions) is not None
    except Exception:  # noqa: BLE001 - a broken rule may end in anything
        return True


def main() -> int:
    """Run the hunt as a command."""
    pa.set_cpu_count(1)
    seed = hunt(int(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write("no history found\n" if seed is None else f"seed {seed}\n")
    return 0 if seed is None else 1


if __name__ == "__main__":
    sys.exit(main())
