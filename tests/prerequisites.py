"""A report of missing prerequisites, one line each, before any test runs."""

import shutil
import subprocess
import sys


def java_major() -> int | None:
    """The major version of the Java on PATH, None without one."""
    java = shutil.which("java")
    if java is None:
        return None
    # -version prints to standard error: openjdk version "17.0.15" …
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    quoted = text.partition('"')[2].partition('"')[0]
    major = quoted.split(".")[0]
    return int(major) if major.isdigit() else None


def main() -> int:
    """Return exit status 1, with the remedy, if something is missing."""
    major = java_major()
    if major is None or major < 17:
        problem = "Java is missing" if major is None else f"Java {major} is too old"
        sys.stderr.write(
            f"{problem}: Spark needs Java 17 or later (Debian: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17).\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
