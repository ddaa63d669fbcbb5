"""delta-spark for the sweep and Sail for the benchmarks: jars by Maven, Pythons of their own.

All of it lies under `var/interop`, outside version control. `DELTA_SPARK_VERSION` names another version.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DELTA_VERSION = os.environ.get("DELTA_SPARK_VERSION", "4.4.0")
GENERATOR_VERSION = "7.17.0"
SAIL_VERSION, SAIL_CLIENT = "0.7.2", "pyspark-client==4.2.0"
SCALA = "2.13"
HOME = Path(__file__).resolve().parents[2] / "var" / "interop"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>interop</groupId><artifactId>interop</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = """<dependency>
    <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
  </dependency>"""
KERNEL_VERSION = "4.4.0"
_OF_KERNEL = (
    f"io.delta:delta-kernel-api:{KERNEL_VERSION}",
    f"io.delta:delta-storage:{KERNEL_VERSION}",
    f"io.delta:delta-kernel-defaults:{KERNEL_VERSION}",
    f"io.delta:delta-kernel-unitycatalog:{KERNEL_VERSION}",
    "io.unitycatalog:unitycatalog-client:0.6.0",
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
)


class OutOfReachError(Exception):
    """delta-spark cannot be fetched here; the message is the reason, in one line."""


@dataclass(frozen=True)
class DeltaSpark:
    """The location of delta-spark and its versions."""

    python: Path
    jars: Path
    delta_version: str
    spark_version: str


def fetch_delta_spark(home: Path = HOME) -> DeltaSpark:
    """Return delta-spark, fetched on first use.

    Raises:
        OutOfReachError: no Java, no Maven, or a repository that cannot be reached.
    """
    _need("java")
    place = home / f"delta-spark-{DELTA_VERSION}"
    jars = place / "jars"
    if not (jars / f"delta-spark_{SCALA}-{DELTA_VERSION}.jar").is_file():
        _copy_jars(place, jars)
    spark_version = _find_spark_version(place)
    python = _environment(home / f"pyspark-{spark_version}", f"pyspark=={spark_version}")
    return DeltaSpark(python, jars, DELTA_VERSION, spark_version)


def fetch_delta_api(home: Path = HOME) -> Path:
    """Return delta-spark's Python package alone, for the module path, fetched on first use.

    Raises:
        OutOfReachError: the package index cannot be reached.
    """
    place = home / f"delta-spark-{DELTA_VERSION}" / "python"
    if not (place / "delta" / "tables.py").is_file():
        target = ["--no-deps", "--target", str(place), f"delta-spark=={DELTA_VERSION}"]
        command = [sys.executable, "-m", "pip", "install", "-q", *target]
        _run(command, "pip cannot install delta-spark")
    return place


def fetch_sail(home: Path = HOME) -> Path:
    """Return a Python with Sail and the client of Spark Connect, installed on first use.

    Raises:
        OutOfReachError: the package index cannot be reached.
    """
    return _environment(home / f"sail-{SAIL_VERSION}", f"pysail=={SAIL_VERSION}", SAIL_CLIENT)


def fetch_kernel(home: Path = HOME) -> Path:
    """Return the jars of Delta Kernel with its client of Unity Catalog, fetched on first use.

    Raises:
        OutOfReachError: no Java, no Maven, or a repository that cannot be reached.
    """
    _need("javac")
    place = home / f"delta-kernel-{KERNEL_VERSION}"
    jars, done = place / "jars", place / ".fetched"
    if not done.is_file():
        _need("mvn")
        place.mkdir(parents=True, exist_ok=True)
        wanted = "".join(_DEPENDENCY.format(*name.split(":")) for name in _OF_KERNEL)
        (place / "pom.xml").write_text(_POM.format(dependencies=wanted), "utf-8")
        command = ["mvn", "-q", "-B", "-f", str(place / "pom.xml")]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        _run(command, "Maven cannot fetch Delta Kernel: no repository can be reached")
        done.touch()
    return jars


def fetch_openapi_generator(home: Path = HOME) -> Path:
    """Return the jar of OpenAPI Generator's command line, fetched on first use.

    Raises:
        OutOfReachError: no Java, no Maven, or a repository that cannot be reached.
    """
    _need("java")
    jar = home / f"openapi-generator-cli-{GENERATOR_VERSION}.jar"
    if not jar.is_file():
        _need("mvn")
        artifact = f"-Dartifact=org.openapitools:openapi-generator-cli:{GENERATOR_VERSION}"
        command = ["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={home}"]
        _run(command, "Maven cannot fetch OpenAPI Generator: no repository can be reached")
    return jar


def _need(tool: str) -> None:
    if shutil.which(tool) is None:
        msg = f"{tool} is not installed, which other engines and generators need"
        raise OutOfReachError(msg)


def _copy_jars(place: Path, jars: Path) -> None:
    _need("mvn")
    place.mkdir(parents=True, exist_ok=True)
    pom = place / "pom.xml"
    spark = _DEPENDENCY.format("io.delta", f"delta-spark_{SCALA}", DELTA_VERSION)
    pom.write_text(_POM.format(dependencies=spark), "utf-8")
    options = [
        "-DincludeScope=runtime",
        "-DincludeGroupIds=io.delta,io.unitycatalog",  # PySpark brings the others
        f"-DoutputDirectory={jars}",
    ]
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options]
    _run(command, "Maven cannot fetch delta-spark: no repository can be reached")


def _find_spark_version(place: Path) -> str:
    """Return the Spark version for which this delta-spark was built, from its own description."""
    version_file = place / "spark-version"
    if not version_file.is_file():
        _need("mvn")
        artifact = f"io.delta:delta-spark_{SCALA}:{DELTA_VERSION}:pom"
        _run(
            [
                "mvn",
                "-q",
                "-B",
                "dependency:copy",
                f"-Dartifact={artifact}",
                f"-DoutputDirectory={place}",
            ],
            "Maven cannot fetch delta-spark's description",
        )
        text = (place / f"delta-spark_{SCALA}-{DELTA_VERSION}.pom").read_text("utf-8")
        match = re.search(
            r"<artifactId>spark-sql_[\d.]+</artifactId>\s*<version>([\d.]+)</version>", text
        )
        if match is None:
            msg = f"delta-spark {DELTA_VERSION} does not say which Spark it needs"
            raise OutOfReachError(msg)
        version_file.write_text(match[1], "utf-8")
    return version_file.read_text("utf-8")


def _environment(place: Path, *packages: str) -> Path:
    python = place / "bin" / "python"
    done = place / ".installed"
    if not done.is_file():
        _run(
            [sys.executable, "-m", "venv", "--clear", str(place)],
            "A virtual environment cannot be made",
        )
        _run(
            [str(python), "-m", "pip", "install", "-q", *packages],
            f"pip cannot install {' '.join(packages)}",
        )
        done.touch()
    return python


def _run(command: list[str], failure: str) -> None:
    outcome = subprocess.run(  # noqa: S603 - Maven, Python and pip, with arguments from here
        command, capture_output=True, text=True, timeout=900, check=False
    )
    if outcome.returncode:
        raise OutOfReachError(failure)
