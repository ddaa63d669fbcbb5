"""Unknown parameters: refused on every address, so that a typo never returns everything."""

from django.urls import reverse

from lakeui.api.urls import urlpatterns
from tests.lakeui.api.problem import problem

SHOWN_AS_PAGES = {"docs/", "redoc/", "schema/"}  # they are drawn, not asked
ADDRESSES = sorted(
    route.name
    for route in urlpatterns
    if route.name != "unknown" and str(route.pattern) not in SHOWN_AS_PAGES
)


def test_a_parameter_that_means_nothing_is_refused(client_for, table, job, conflict, schedule):
    client, converters = client_for("admin"), {r.name: r.pattern.converters for r in urlpatterns}
    places = {
        "table_id": table.pk,
        "version": 1,
        "older": 1,
        "newer": 2,
        "job_id": job.pk,
        "upload_id": job.pk,
        "conflict_id": conflict.pk,
        "pair_id": 1,
        "schedule_id": schedule.pk,
        "token_id": job.pk,
        "session_id": job.pk,
        "key_id": 1,
        "mute_id": 1,
        "channel_id": 1,
        "rule_id": 1,
        "discovery_id": 1,
        "read_id": job.pk,
        "username": "viewer",
    }
    for name in ADDRESSES:
        kwargs = {place: places[place] for place in converters[name]}
        answer = client.get(reverse(f"api:{name}", kwargs=kwargs), {"nonsense": "1"})
        if answer.status_code in (404, 405):  # nothing to be read there
            problem(answer, answer.status_code)
            continue
        faults = problem(answer, 422)["errors"]
        assert "nonsense" in {fault["field"] for fault in faults}, name
