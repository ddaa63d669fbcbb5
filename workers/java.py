"""Checks that Spark can start here; if not, prints the remedy: `python -m workers.java`."""

import sys

from engine.spark.session import SparkUnavailableError, check_java


def main() -> int:
    """Return 0 if Java is recent enough, else 1 with the remedy on standard error."""
    try:
        check_java()
    except SparkUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
