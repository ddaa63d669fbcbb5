"""Programs for tests: real transactions on a registered table, and their reports."""

import json
from dataclasses import asdict
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone
from rest_framework.test import APIClient

from engine.errors import ConflictError
from engine.table import DeltaTable
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.registration import register_table
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run
from tests.stateful.history import SCHEMA

WRITER = {"application": "nightly", "host": "etl-3", "user": "ada", "engine": "lakeui/0.2"}
ROWS = tuple(("a", x) for x in range(6))


class Program:
    """A program that writes to one table and records its transactions' events."""

    def __init__(self, place, name="sales.orders"):
        properties = {"delta.enableDeletionVectors": "true"}
        self.lake = DeltaTable.create(str(place), SCHEMA, properties=properties)
        self.do(c.Append(1, ROWS))
        self.table = register_table(str(place), name)

    def do(self, command):
        running = run(command, self.lake, stats=False)
        return running.txn.commit(running.operation)

    def resolve_events(self):
        """Return the events of a DELETE that overlapped with another one in the same file."""
        running = run(c.Delete(2, c.Range(0, 2)), self.lake, stats=False)
        self.do(c.Delete(3, c.Range(4, 5)))
        version = running.txn.commit("DELETE")
        refresh_table(self.table)
        (resolved,) = running.txn.outcome.resolved
        return [
            self.event(running, "begun", 0),
            self.event(running, "resolved", 1, conflict=plain(asdict(resolved))),
            self.event(running, "committed", 2, version=version),
        ]

    def abort_events(self):
        """Return the events of a DELETE of rows that an UPDATE changed first."""
        running = run(c.Delete(4, c.Range(3, 4)), self.lake, stats=False)
        self.do(c.Update(5, c.Range(3, 4), x=99))
        with pytest.raises(ConflictError) as raised:
            running.txn.commit("DELETE")
        refresh_table(self.table)
        error = raised.value
        facts = plain(error.conflict.as_dict())
        lost = {"conflict": facts, "exception": type(error).__name__, "wasted_bytes": 12}
        return [self.event(running, "begun", 0), self.event(running, "aborted", 1, **lost)]

    def event(self, running, kind, sequence, **more):
        now = timezone.now()
        return {
            "kind": kind,
            "table": self.lake.uri,
            "txn_id": running.txn.txn_id,
            "sequence": sequence,
            "at": now.isoformat(),
            "started_at": (now - timedelta(seconds=40)).isoformat(),
            "operation": "DELETE",
            "statement": "DELETE FROM sales.orders WHERE x < 3",
            "read_version": running.txn.read_version,
        } | more


def plain(facts):
    """Return the event as JSON carries it."""
    return json.loads(json.dumps(facts))


def batch(*events, **more):
    return {"writer": WRITER, "events": list(events)} | more


def take(events):
    """Store events as the REST address does, as sent by a service account."""
    robot, _ = User.objects.get_or_create(username="nightly-robot")
    client = APIClient()
    client.force_login(robot)
    robot.groups.add(Group.objects.get(name="reporter"))
    answer = client.post("/api/v1/pipelines/events/", batch(*events), format="json")
    assert answer.status_code == 200, answer.content
