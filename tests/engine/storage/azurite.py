"""Azurite, an emulator of Azure Blob Storage: installed by npm and started for the tests of stores.

`make azure` runs this module. The tests of `tests/engine/storage` then meet Azure too.
"""

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

PACKAGE = "azurite@3.35.0"
EXECUTABLE = os.environ.get("AZURITE", "")
_ACCOUNT = "tester"
_KEY = base64.b64encode(b"tester").decode()
_ROOT = Path(__file__).resolve().parents[3]
_HOME = _ROOT / "var" / "azurite"
_LISTENS = "successfully listens on "
_API = "2021-12-02"


def main() -> int:
    """Install Azurite if necessary, then run the tests of stores with it."""
    executable = _HOME / "node_modules" / ".bin" / "azurite-blob"
    why = "" if executable.exists() else _install()
    if why:
        sys.stdout.write(f"Skipped: the stores were not tested against Azure, for {why}.\n")
        return 0
    command = [sys.executable, "-m", "pytest", "-k", "azure", "tests/engine/storage"]
    environment = {**os.environ, "AZURITE": str(executable)}
    return subprocess.run(command, env=environment, cwd=_ROOT, check=False).returncode  # noqa: S603 - our own command


def _install() -> str:
    """Install it below `var`; return why that failed, "" if it is installed."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return "npm is missing (Debian: apt install npm)"
    _HOME.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--prefix", str(_HOME), "--no-audit", "--no-fund", "--silent"]
    try:
        subprocess.run([*command, PACKAGE], check=True, timeout=300, capture_output=True)  # noqa: S603 - our own command
    except (subprocess.SubprocessError, OSError):
        return "npm could not fetch Azurite (is its registry in reach?)"
    return ""


@contextmanager
def azure_container(name: str) -> Iterator[dict[str, str]]:
    """Yield the storage options of a server with one empty container."""
    command = [EXECUTABLE, "--blobHost", "127.0.0.1", "--blobPort", "0", "--silent"]
    command += ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{_ACCOUNT}:{_KEY}"}
    with subprocess.Popen(  # noqa: S603 - our own command
        command, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            address = _address(server)
            _create(address, name)
            yield {
                "azure_storage_account_name": _ACCOUNT,
                "azure_storage_account_key": _KEY,
                "azure_storage_endpoint": f"{address}/{_ACCOUNT}",
                "allow_http": "true",
            }
        finally:
            server.terminate()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    for line in server.stdout:
        _, sign, address = line.partition(_LISTENS)
        if sign:
            return address.strip()
    pytest.fail("Azurite did not start")


def _create(address: str, container: str) -> None:
    """Create a container, signed with the account's key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _API}
    shown = "".join(f"{name}:{value}\n" for name, value in headers.items())
    resource = f"/{_ACCOUNT}/{_ACCOUNT}/{container}\nrestype:container"
    signed = hmac.digest(
        base64.b64decode(_KEY), f"PUT{chr(10) * 12}{shown}{resource}".encode(), hashlib.sha256
    )
    headers["Authorization"] = f"SharedKey {_ACCOUNT}:{base64.b64encode(signed).decode()}"
    url = f"{address}/{_ACCOUNT}/{container}?restype=container"
    request = urllib.request.Request(url, method="PUT", headers=headers)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own server
        assert answer.status == 201


if __name__ == "__main__":
    sys.exit(main())
