"""Workers killed at any moment of their jobs: each job is applied exactly once."""

import random
from collections import Counter

import pytest

from engine.table import DeltaTable
from lakeui.jobs.models import Job
from tests.services import CLOCK, wait_until
from tests.workers.test_job_lifecycle import set_property
from workers.periodic_tasks import sweep_leases

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1800)]

ROUNDS = 40


def test_every_job_lands_once_however_often_its_worker_is_killed(table, start_worker):
    chance = random.Random(20)  # noqa: S311 - moments to kill at
    jobs = []
    for number in range(ROUNDS):
        worker = start_worker("light")
        sweep_leases()
        jobs.append(set_property(table, f"round{number}", retries=20))
        CLOCK.pause(chance.uniform(0, 0.4))
        worker.kill()
    start_worker("light")

    def all_ended() -> bool:
        sweep_leases()
        return not Job.objects.filter(state__in=Job.ACTIVE).exists()

    wait_until(all_ended, "every job to end", 300)
    assert set(Job.objects.values_list("state", flat=True)) == {Job.State.SUCCEEDED}
    landed = Counter(info.txn_id for info in DeltaTable.open(table.uri).history())
    assert {str(job.txn_id): landed[str(job.txn_id)] for job in jobs} == {
        str(job.txn_id): 1 for job in jobs
    }
