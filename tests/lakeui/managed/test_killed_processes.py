"""Processes of the catalog that are killed at each line of a ratification, two at a time."""

import os
import random
import signal
import sys

import pytest
from django.contrib.auth.models import User
from django.db import connections, transaction

from engine.errors import VersionTakenError
from lakeui.catalog.managed_tables import open_location
from lakeui.managed import ratification
from lakeui.managed.models import CommitAttempt, ManagedTable, RatifiedVersion
from lakeui.managed.publication import publish_commits
from lakeui.managed.ratification import list_commits
from tests.lakeui.managed.staged import make_managed, propose, stage

_TRACED = {ratification.__file__, transaction.__file__}


def _propose_until(point, table, commit):
    """Propose a commit in a separate process, which is killed at a line; return the commit's id."""
    child = os.fork()
    if child:
        return child
    left = point

    def trace(frame, _event, _argument):
        nonlocal left
        if frame.f_code.co_filename not in _TRACED:
            return None
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    code = 2
    try:
        propose(ManagedTable.objects.get(pk=table.pk), commit)
        code = 0
    except VersionTakenError:
        code = 1
    finally:
        sys.settrace(None)
        os._exit(code)


def _has(table, commit):
    """Propose a commit again, as its client does after a lost answer; return whether it is a version."""
    try:
        propose(table, commit)
    except VersionTakenError:
        return False
    return True


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(300)
def test_processes_that_are_killed_while_they_ratify_lose_and_repeat_nothing(settings):
    settings.CATALOG_MAX_UNPUBLISHED = 1000
    table = make_managed(User.objects.create_user("ann"))
    store, chance = open_location(table), random.Random(5)  # noqa: S311
    landed, lost, killed, point, ended = [], [], 0, 0, False
    while not ended:
        version = len(landed) + 1
        rivals = [stage(store, version), stage(store, version)]
        connections.close_all()  # no process may inherit one
        points = (point, chance.randrange(point + 10))
        children = [
            _propose_until(*given) for given in zip(points, [table] * 2, rivals, strict=True)
        ]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert set(codes) <= {0, 1, -signal.SIGKILL}, point
        killed += codes.count(-signal.SIGKILL)
        acknowledged = [rival for rival, code in zip(rivals, codes, strict=True) if code == 0]
        chance.shuffle(rivals)
        winners = [rival for rival in rivals if _has(table, rival)]
        assert len(winners) == 1, point
        assert acknowledged in ([], winners), point
        landed += winners
        lost += [rival for rival in rivals if rival not in winners]
        point, ended = point + 1, codes[0] != -signal.SIGKILL
    assert killed > point > 20
    answer = list_commits(table).check()
    assert [*answer.commits] == landed
    assert RatifiedVersion.objects.count() == len(landed) == answer.latest_version
    attempts = CommitAttempt.objects.order_by("version").values_list("file_name", flat=True)
    assert [*attempts] == [commit.file_name for commit in lost]
    assert publish_commits(table, store) == len(landed)
