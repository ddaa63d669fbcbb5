"""docs/operations.md and the deployment file name what settings there are, and no others."""

import re

from tests.services import ROOT

GUIDE = (ROOT / "docs/operations.md").read_text("utf-8")
COMPOSE = (ROOT / "docker-compose.yml").read_text("utf-8")
OF_THE_STACK = {"LAKEUI_EMBEDDED"}  # set by `manage.py up` for its children
OF_COMPOSE = {"POSTGRES_PASSWORD", "LAKE_DIR"}


def names_read() -> set[str]:
    settings = (ROOT / "lakeui/settings.py").read_text("utf-8")
    session = (ROOT / "engine/spark/session.py").read_text("utf-8")
    read = re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', settings)
    return {*read, *re.findall(r'environ\.get\("([A-Z_]+)"', session)} - OF_THE_STACK


def test_every_setting_is_in_the_guide():
    assert len(names_read()) > 40
    assert [name for name in sorted(names_read()) if f"`{name}`" not in GUIDE] == []


def test_the_deployment_file_passes_on_settings_that_exist():
    passed = set(re.findall(r"^    ([A-Z_]+):", COMPOSE, re.MULTILINE))
    asked = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE))
    assert passed - names_read() == set()
    assert asked - names_read() == OF_COMPOSE
    assert all(name in GUIDE for name in OF_COMPOSE)
