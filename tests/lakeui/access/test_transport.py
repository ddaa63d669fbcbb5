"""Cookies, headers and schemes behind a proxy that ends TLS, and without one."""

import json
import os
import subprocess
import sys

import pytest

from tests.services import ROOT

pytestmark = pytest.mark.timeout(180)

ASK = """
import django, json
django.setup()
from django.conf import settings
from django.test import Client
answer = Client().get(
    "/login/", headers={"Host": "localhost", "X-Forwarded-Proto": "https"}
)
print(json.dumps({
    "cookies": sorted(f"{k}:{bool(v['secure'])}:{v['samesite']}" for k, v in answer.cookies.items()),
    "hsts": answer.headers.get("Strict-Transport-Security"),
    "secure": answer.wsgi_request.is_secure(),
    "session": [settings.SESSION_COOKIE_SECURE, settings.SESSION_COOKIE_HTTPONLY],
}))
"""


@pytest.mark.parametrize(
    ("environment", "secure", "hsts", "cookie"),
    [
        ({}, False, None, "csrftoken:False:Lax"),
        ({"HTTPS_ONLY": "1"}, False, None, "csrftoken:True:Lax"),
        ({"HTTPS_ONLY": "1", "TRUSTED_PROXIES": "1"}, True, "max-age=3600", "csrftoken:True:Lax"),
    ],
)
def test_a_header_is_believed_behind_a_trusted_proxy_alone(environment, secure, hsts, cookie):
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        env={**os.environ, "LOG_LEVEL": "ERROR", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["secure"], report["hsts"], report["cookies"]) == (secure, hsts, [cookie])
    assert report["session"] == ["HTTPS_ONLY" in environment, True]
