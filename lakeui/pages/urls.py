"""Addresses of the pages."""

from django.urls import URLPattern, path

from lakeui.pages import monitoring
from lakeui.pages.access import audit, preferences, session, tokens
from lakeui.pages.conflicts import conflict, conflict_rows, explain
from lakeui.pages.conflicts import conflict_list as conflicts
from lakeui.pages.jobs import job_form, schedules, streams
from lakeui.pages.jobs import job_list as jobs
from lakeui.pages.overview import attention_list, overview, search
from lakeui.pages.tables import (
    clone,
    concurrency,
    diff,
    eligibility,
    files,
    history,
    isolation,
    landed,
    preview,
    register,
    schema,
    summary,
    unregister,
    version,
    what_if,
)
from lakeui.pages.tables import table_list as tables

urlpatterns: list[URLPattern] = [
    path("", overview.overview, name="overview"),
    path("attention/", attention_list.attention_list, name="attention"),
    path("attention/mute/", attention_list.attention_mute, name="attention-mute"),
    path("attention/mutes/<int:pk>/end/", attention_list.attention_unmute, name="attention-unmute"),
    path("tables/", tables.table_list, name="table-list"),
    path("tables/register/", register.register, name="table-register"),
    path("tables/upload/", register.upload, name="table-upload"),
    path("tables/clone/", clone.clone, name="table-clone"),
    path("tables/<int:pk>/", summary.table_page, name="table"),
    path("tables/<int:pk>/refresh/", tables.table_refresh, name="table-refresh"),
    path("tables/<int:pk>/unregister/", unregister.unregister, name="table-unregister"),
    path("tables/<int:pk>/landed/", landed.landed, name="table-landed"),
    path("tables/<int:pk>/sync/", landed.sync, name="table-sync"),
    path("tables/<int:pk>/history/", history.history, name="table-history"),
    path("tables/<int:pk>/history/<int:version>/", version.version, name="table-version"),
    path("tables/<int:pk>/schema/", schema.schema, name="table-schema"),
    path("tables/<int:pk>/schema/keys/<int:key_pk>/remove/", schema.key_remove, name="key-remove"),
    path("tables/<int:pk>/diff/", diff.choose, name="table-diff-choose"),
    path("tables/<int:pk>/diff/<int:older>...<int:newer>/", diff.diff, name="table-diff"),
    path("tables/<int:pk>/concurrency/", concurrency.concurrency, name="table-concurrency"),
    path("tables/<int:pk>/isolation/", isolation.isolation, name="table-isolation"),
    path("tables/<int:pk>/eligibility/", eligibility.eligibility, name="table-eligibility"),
    path("tables/<int:pk>/files/", files.files, name="table-files"),
    path("tables/<int:pk>/preview/", preview.preview, name="table-preview"),
    path("tables/<int:pk>/what-if/", what_if.what_if_page, name="table-what-if"),
    path("conflicts/explain/", explain.explain, name="explain"),
    path("jobs/", jobs.job_list, name="job-list"),
    path("jobs/new/", job_form.job_new, name="job-new"),
    path("jobs/stream/", streams.jobs_stream, name="jobs-stream"),
    path("jobs/<uuid:pk>/", jobs.job_page, name="job"),
    path("jobs/<uuid:pk>/log/", jobs.job_log, name="job-log"),
    path("jobs/<uuid:pk>/stream/", streams.job_stream, name="job-stream"),
    path("jobs/<uuid:pk>/cancel/", jobs.job_cancel, name="job-cancel"),
    path("jobs/<uuid:pk>/retry/", jobs.job_retry, name="job-retry"),
    path("conflicts/", conflicts.conflict_list, name="conflict-list"),
    path("conflicts/<int:pk>/", conflict.conflict_page, name="conflict"),
    path("conflicts/<int:pk>/rows/", conflict_rows.conflict_rows, name="conflict-rows"),
    path("schedules/", schedules.schedule_list, name="schedule-list"),
    path("schedules/new/", schedules.schedule_new, name="schedule-new"),
    path("schedules/<int:pk>/", schedules.schedule_change, name="schedule-change"),
    path("schedules/<int:pk>/edit/", schedules.schedule_edit, name="schedule-edit"),
    path("monitoring/", monitoring.monitoring, name="monitoring"),
    path("audit/", audit.audit, name="audit"),
    path("tokens/", tokens.token_list, name="token-list"),
    path("tokens/<uuid:public_id>/revoke/", tokens.token_revoke, name="token-revoke"),
    path("search/", search.search, name="search"),
    path("preferences/", preferences.preferences, name="preferences"),
    path("login/", session.SignInView.as_view(), name="login"),
    path("logout/", session.SignOutView.as_view(), name="logout"),
]
