"""Hadoop connectors for object stores: the one Spark needs for a location, and fetching its jars.

The engine's own stores need none of them; Spark's reads of data files do.
"""

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import EngineError

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lake</groupId><artifactId>connectors</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""
_SECONDS = 1800  # the connector for S3 is 700 MB


class ConnectorError(EngineError, code="LAKE_CONNECTOR_UNAVAILABLE", sqlstate="58000"):
    """A connector's jars cannot be fetched."""


@dataclass(frozen=True)
class Connector:
    """Hadoop's requirements for reading a scheme.

    Attributes:
        name: its name in `manage.py connectors`.
        file_system: the class serving the scheme.
        group: the artifact's Maven group; its version is that of Spark's own Hadoop.
        artifact: the artifact's Maven name.
    """

    name: str
    file_system: str
    group: str
    artifact: str


_HADOOP = "org.apache.hadoop"
CONNECTORS: Mapping[str, Connector] = {
    "s3": Connector("s3", f"{_HADOOP}.fs.s3a.S3AFileSystem", _HADOOP, "hadoop-aws"),
    "az": Connector(
        "azure", f"{_HADOOP}.fs.azurebfs.SecureAzureBlobFileSystem", _HADOOP, "hadoop-azure"
    ),
    "gs": Connector("gcs", f"{_HADOOP}.fs.gs.GoogleHadoopFileSystem", _HADOOP, "hadoop-gcp"),
}
"""By scheme of a table's location."""


def connector_jars(home: Path) -> list[Path]:
    """Return the jars of every connector fetched into a directory."""
    return sorted(home.glob("*/*.jar"))


def has_connector(home: Path, connector: Connector) -> bool:
    """Return whether its jars exist in the version Spark needs."""
    return (home / connector.name / f"{connector.artifact}-{hadoop_version()}.jar").is_file()


def hadoop_version() -> str:
    """Return the version of PySpark's Hadoop.

    Raises:
        ConnectorError: PySpark is not installed, or has no version.
    """
    for jar in _spark_jars():
        match = re.fullmatch(r"hadoop-client-runtime-([\d.]+)\.jar", jar)
        if match is not None:
            return match[1]
    msg = "No PySpark was found that states its Hadoop version."
    raise ConnectorError(msg, "Install PySpark here, or list your own jars in SPARK_JARS.")


def fetch_connector(connector: Connector, home: Path) -> list[Path]:
    """Fetch a connector's jars by Maven, except Spark's own; they appear all at once.

    Raises:
        ConnectorError: Maven is missing, or no repository is reachable.
    """
    version = hadoop_version()
    maven = shutil.which("mvn")
    if maven is None:
        msg = (
            f"Maven is needed to fetch {connector.group}:{connector.artifact}:{version}, but "
            "it is not installed."
        )
        remedy = f"Install it (apt install maven), or put the jars into {home / connector.name}."
        raise ConnectorError(msg, remedy)
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix=".fetching-") as scratch:
        pom, jars = Path(scratch, "pom.xml"), Path(scratch, "jars")
        pom.write_text(
            _POM.format(group=connector.group, artifact=connector.artifact, version=version),
            "utf-8",
        )
        _copy(maven, pom, jars)
        of_spark = {_artifact(jar) for jar in _spark_jars()}
        for jar in jars.iterdir():
            if _artifact(jar.name) in of_spark:
                jar.unlink()
        place = home / connector.name
        shutil.rmtree(place, ignore_errors=True)
        jars.rename(place)
    return sorted(place.glob("*.jar"))


def _copy(maven: str, pom: Path, jars: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    try:
        outcome = subprocess.run(  # noqa: S603 - Maven, with arguments from here
            [maven, "-q", "-B", "-f", str(pom), *goal],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        msg = f"Maven had not fetched the jars after {_SECONDS // 60} minutes."
        raise ConnectorError(msg, "Check the network, then try again.") from error
    if outcome.returncode != 0 or not jars.is_dir():
        lines = (outcome.stdout + outcome.stderr).splitlines()
        reason = next((line for line in lines if "ERROR" in line), "it gave no reason")
        msg = f"Maven could not fetch the jars: {reason[:300]}"
        raise ConnectorError(msg, "Check that a Maven repository can be reached, then try again.")


def _artifact(jar: str) -> str:
    """Strip the version from a jar's name: `commons-codec` for `commons-codec-1.11.jar`."""
    return re.sub(r"-\d[\w.\-]*\.jar$", "", jar)


def _spark_jars() -> list[str]:
    """List the names of PySpark's jars without loading Spark."""
    spec = importlib.util.find_spec("pyspark")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    return [jar.name for place in places for jar in Path(place, "jars").glob("*.jar")]
