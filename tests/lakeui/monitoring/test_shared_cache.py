"""Web processes share counters in Redis, and continue without it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory
from django.utils import timezone
from rest_framework.request import Request

from lakeui.api.throttles import AnonymousThrottle
from lakeui.monitoring.password_tries import PAUSE, PasswordTries
from lakeui.monitoring.shared_cache import SharedCache
from tests.services import run_redis

NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture(scope="module")
def redis_url():
    with run_redis() as url:
        yield url


@pytest.fixture
def cache(redis_url):
    shared = SharedCache(redis_url, {})
    shared.clear()
    return shared


def try_request(cache, rate="3/min"):
    """Return another web process's throttle, and whether it admits a request."""

    class Throttle(AnonymousThrottle):
        def get_rate(self):
            return rate

    throttle = Throttle()
    throttle.cache = cache
    request = Request(RequestFactory().get("/"))
    request.user = AnonymousUser()
    return throttle, throttle.allow_request(request, None)


def test_processes_that_share_a_cache_admit_no_more_than_the_rate(redis_url, cache):
    with ThreadPoolExecutor(8) as processes:
        let_in = list(
            processes.map(lambda _: try_request(SharedCache(redis_url, {}))[1], range(16))
        )
    assert let_in.count(True) == 3
    refused, _ = try_request(cache)
    assert 0 < refused.wait() <= 60


def test_without_redis_everybody_is_admitted_and_the_log_says_so(caplog):
    gone = SharedCache(NOBODY, {})
    assert all(try_request(gone, "1/min")[1] for _ in range(3))
    assert caplog.text.count("is unreachable") == 1


def test_cached_values_are_json_and_come_back(cache):
    cache.set("tries", (3, 1.5), 60)
    cache.set("count", 4, 60)
    assert (cache.get("tries"), cache.get("count"), cache.get("none", 7)) == ([3, 1.5], 4, 7)
    assert cache.incr("count") == 5
    client = cache._cache.get_client()
    assert client.get(cache.make_key("tries")) == b"[3, 1.5]"


def test_tries_to_sign_in_are_counted_together(cache, monkeypatch):
    monkeypatch.setattr("lakeui.monitoring.password_tries.cache", cache)
    before = timezone.now()
    request = RequestFactory().post("/login/")
    tries = [PasswordTries.from_request(request, name) for name in ("Ann", "ann", "ANN") * 2]
    assert [one.take() for one in tries] == [4, 3, 2, 1, 0, -1]
    assert before < tries[0].paused_until - PAUSE <= timezone.now()
    tries[0].forget()
    assert tries[1].take() == 4
