"""docs/operations.md and the deployment file name what settings there are, and no others."""

import re

from lakeui.local_stack.stack import programs
from tests.services import ROOT

GUIDE = (ROOT / "docs/operations.md").read_text("utf-8")
COMPOSE = (ROOT / "docker-compose.yml").read_text("utf-8")
OF_THE_STACK = {"LAKEUI_EMBEDDED"}  # set by `manage.py up` for its children
OF_COMPOSE = {"POSTGRES_PASSWORD", "LAKE_DIR"}


def names_read() -> set[str]:
    settings = (ROOT / "lakeui/settings.py").read_text("utf-8")
    session = (ROOT / "engine/spark/session.py").read_text("utf-8")
    read = re.findall(r'env\.\w+\((?:\s|#.*)*"([A-Z_]+)"', settings)
    of_session = re.findall(r'environ\.get\("([A-Z_]+)"|"(SPARK_[A-Z_]+)"', session)
    return {*read, *(name or other for name, other in of_session)} - OF_THE_STACK


def test_every_setting_is_in_the_guide():
    assert len(names_read()) > 40
    assert [name for name in sorted(names_read()) if f"`{name}`" not in GUIDE] == []


def test_every_setting_in_the_guide_is_read():
    rows = GUIDE.split("## Settings\n")[1].split("\n### ")[0].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("| `")]
    names = {name for cell in cells for name in re.findall(r"`([A-Z_]+)`", cell)}
    of_pyspark = {"PYSPARK_PYTHON", "JAVA_HOME"}
    assert names - names_read() - of_pyspark == set()


def test_every_web_server_hands_on_the_address_of_its_own_peer():
    """uvicorn believes X-Forwarded-For from loopback unless it is told not to."""
    stack = (" ".join(map(str, one.command)) for one in programs(8000, spark=False, demo=False))
    commands = [
        line
        for text in (GUIDE, COMPOSE, "\n".join(stack))
        for line in text.splitlines()
        if "lakeui.asgi:application" in line
    ]
    assert len(commands) == 3
    assert all("--no-proxy-headers" in command for command in commands)


def test_the_deployment_file_passes_on_settings_that_exist():
    passed = set(re.findall(r"^    ([A-Z_]+):", COMPOSE, re.MULTILINE))
    asked = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE))
    assert passed - names_read() == set()
    assert asked - names_read() == OF_COMPOSE
    assert all(name in GUIDE for name in OF_COMPOSE)
