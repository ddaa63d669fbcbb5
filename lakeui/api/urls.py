"""Addresses of the REST face, under /api/v1/."""

from django.urls import URLPattern, path, re_path

from lakeui.api import access, docs, jobs, monitoring, overview, streaming
from lakeui.api.conflicts import conflicts, explain, fixes, pipelines, repeated
from lakeui.api.tables import (
    discover,
    eligibility,
    history,
    isolation,
    rows,
    schema,
    tables,
    uploads,
)

app_name = "api"

urlpatterns: list[URLPattern] = [
    path("glossary/", overview.Glossary.as_view(), name="glossary"),
    path("search/", overview.Search.as_view(), name="search"),
    path("overview/", overview.Overview.as_view(), name="overview"),
    path("attention/", overview.AttentionView.as_view(), name="attention"),
    path("attention/mutes/", overview.MuteList.as_view(), name="mutes"),
    path("attention/mutes/<int:mute_id>/", overview.MuteDetail.as_view(), name="mute"),
    path("tables/", tables.TableList.as_view(), name="tables"),
    path(
        "tables/<int:table_id>/",
        streaming.allow_waiting(tables.TableDetail.as_view()),
        name="table",
    ),
    path(
        "tables/<int:table_id>/stream/",
        streaming.stream_view(tables.TableStream.as_view()),
        name="table-stream",
    ),
    path("tables/<int:table_id>/versions/", history.VersionList.as_view(), name="versions"),
    path(
        "tables/<int:table_id>/versions/<int:version>/",
        history.VersionDetail.as_view(),
        name="version",
    ),
    path(
        "tables/<int:table_id>/versions/<int:version>/files/",
        history.VersionFileList.as_view(),
        name="version-files",
    ),
    path("tables/<int:table_id>/files/", history.LiveFileList.as_view(), name="files"),
    path("tables/<int:table_id>/timeline/", history.TimelineDetail.as_view(), name="timeline"),
    path("tables/<int:table_id>/growth/", history.GrowthDetail.as_view(), name="growth"),
    path("tables/<int:table_id>/layout/", history.LayoutDetail.as_view(), name="layout"),
    path("tables/<int:table_id>/preview/", rows.TablePreview.as_view(), name="preview"),
    path("tables/<int:table_id>/schema/", schema.TableSchema.as_view(), name="table-schema"),
    path("tables/<int:table_id>/columns/", schema.ColumnList.as_view(), name="columns"),
    path("tables/<int:table_id>/keys/", schema.KeyList.as_view(), name="keys"),
    path("tables/<int:table_id>/keys/<int:key_id>/", schema.KeyDetail.as_view(), name="key"),
    path(
        "tables/<int:table_id>/diff/<int:older>...<int:newer>/", history.Diff.as_view(), name="diff"
    ),
    path(
        "tables/<int:table_id>/diff/<int:older>...<int:newer>/rows/",
        rows.RowDiff.as_view(),
        name="row-diff",
    ),
    path(
        "tables/<int:table_id>/conflicts/",
        conflicts.TableConflictList.as_view(),
        name="table-conflicts",
    ),
    path("tables/<int:table_id>/jobs/", jobs.TableJobList.as_view(), name="table-jobs"),
    path("tables/<int:table_id>/forecast/", jobs.JobForecastDetail.as_view(), name="forecast"),
    path(
        "tables/<int:table_id>/eligibility/",
        eligibility.EligibilityDetail.as_view(),
        name="eligibility",
    ),
    path(
        "tables/<int:table_id>/quiet-hours/", tables.QuietHoursOfTable.as_view(), name="quiet-hours"
    ),
    path("tables/<int:table_id>/isolation/", isolation.Isolation.as_view(), name="isolation"),
    path("tables/<int:table_id>/matrix/", isolation.Matrix.as_view(), name="matrix"),
    path("tables/<int:table_id>/overlaps/", isolation.OverlapList.as_view(), name="overlaps"),
    path("tables/<int:table_id>/reordered/", isolation.ReorderedList.as_view(), name="reordered"),
    path("tables/<int:table_id>/what-if/", isolation.WhatIfDetail.as_view(), name="what-if"),
    path(
        "tables/<int:table_id>/schedules/", jobs.TableScheduleList.as_view(), name="table-schedules"
    ),
    path("tables/<int:table_id>/concurrency/", isolation.Concurrency.as_view(), name="concurrency"),
    path(
        "tables/<int:table_id>/concurrency/lanes/",
        isolation.ConcurrencyLanes.as_view(),
        name="lanes",
    ),
    path("tables/<int:table_id>/grants/", tables.GrantList.as_view(), name="grants"),
    path(
        "tables/<int:table_id>/grants/<str:username>/", tables.GrantDetail.as_view(), name="grant"
    ),
    path("discoveries/", discover.DiscoveryList.as_view(), name="discoveries"),
    path("discoveries/<int:discovery_id>/", discover.DiscoveryDetail.as_view(), name="discovery"),
    path(
        "discoveries/<int:discovery_id>/tables/",
        discover.DiscoveredTableList.as_view(),
        name="discovered-tables",
    ),
    path(
        "discoveries/<int:discovery_id>:continue",
        discover.DiscoveryContinue.as_view(),
        name="discovery-continue",
    ),
    path(
        "discoveries/<int:discovery_id>:dismiss",
        discover.DiscoveryDismiss.as_view(),
        name="discovery-dismiss",
    ),
    path(
        "discoveries/<int:discovery_id>:register",
        discover.DiscoveryRegister.as_view(),
        name="discovery-register",
    ),
    path("jobs/", jobs.JobList.as_view(), name="jobs"),
    path("jobs/<uuid:job_id>/", streaming.allow_waiting(jobs.JobDetail.as_view()), name="job"),
    path(
        "jobs/<uuid:job_id>/stream/",
        streaming.stream_view(jobs.JobStream.as_view()),
        name="job-stream",
    ),
    path("jobs/<uuid:job_id>/events/", jobs.JobEventList.as_view(), name="job-events"),
    path("jobs/<uuid:job_id>:cancel", jobs.JobCancel.as_view(), name="job-cancel"),
    path("jobs/<uuid:job_id>:retry", jobs.JobRetry.as_view(), name="job-retry"),
    path("conflicts/", conflicts.ConflictList.as_view(), name="conflicts"),
    path("conflicts/costs/", conflicts.ConflictCosts.as_view(), name="conflict-costs"),
    path("conflicts/exceptions/", conflicts.Exceptions.as_view(), name="exceptions"),
    path("conflicts/explain/", explain.ConflictExplain.as_view(), name="explain"),
    path("conflicts/repeated/", repeated.RepeatedConflictList.as_view(), name="conflict-repeated"),
    path(
        "conflicts/repeated/<int:pair_id>/",
        repeated.RepeatedConflictDetail.as_view(),
        name="conflict-repeated-detail",
    ),
    path("conflicts/<int:conflict_id>/", conflicts.ConflictDetail.as_view(), name="conflict"),
    path(
        "conflicts/<int:conflict_id>/rows/",
        conflicts.ConflictRowValues.as_view(),
        name="conflict-rows",
    ),
    path(
        "conflicts/<int:conflict_id>/trials/",
        fixes.ConflictTrialAnswers.as_view(),
        name="conflict-trials",
    ),
    path(
        "conflicts/<int:conflict_id>/rerun/",
        fixes.ConflictRerunDetail.as_view(),
        name="conflict-rerun",
    ),
    path("pipelines/events/", pipelines.PipelineEvents.as_view(), name="pipeline-events"),
    path(
        "uploads/<uuid:upload_id>/preview/", uploads.UploadPreview.as_view(), name="upload-preview"
    ),
    path("uploads/", uploads.Uploads.as_view(), name="uploads"),
    path("schedules/", jobs.ScheduleList.as_view(), name="schedules"),
    path("schedules/runs/", jobs.RunGrid.as_view(), name="run-grid"),
    path("schedules/<int:schedule_id>/", jobs.ScheduleDetail.as_view(), name="schedule"),
    path("schedules/<int:schedule_id>:run", jobs.ScheduleRun.as_view(), name="schedule-run"),
    path("audit/", access.AuditList.as_view(), name="audit"),
    path("tokens/", access.TokenList.as_view(), name="tokens"),
    path("tokens/all/", access.EveryTokenList.as_view(), name="all-tokens"),
    path("tokens/<uuid:token_id>/", access.TokenDetail.as_view(), name="token"),
    path("sessions/", access.SessionList.as_view(), name="sessions"),
    path("sessions/all/", access.EverySessionList.as_view(), name="all-sessions"),
    path("sessions/<uuid:session_id>/", access.SessionDetail.as_view(), name="session"),
    path("monitoring/", monitoring.Monitoring.as_view(), name="monitoring"),
    path("monitoring/alerts/", monitoring.Alerts.as_view(), name="alerts"),
    path("monitoring/reads/", monitoring.ReadList.as_view(), name="reads"),
    path(
        "monitoring/reads/<uuid:read_id>:cancel",
        monitoring.ReadCancel.as_view(),
        name="read-cancel",
    ),
    path("alerts/channels/", monitoring.ChannelList.as_view(), name="alert-channels"),
    path(
        "alerts/channels/<int:channel_id>/",
        monitoring.ChannelDetail.as_view(),
        name="alert-channel",
    ),
    path(
        "alerts/channels/<int:channel_id>:test", monitoring.ChannelTest.as_view(), name="alert-test"
    ),
    path("alerts/rules/", monitoring.RuleList.as_view(), name="alert-rules"),
    path("alerts/rules/<int:rule_id>/", monitoring.RuleDetail.as_view(), name="alert-rule"),
    path("alerts/deliveries/", monitoring.DeliveryList.as_view(), name="alert-deliveries"),
    path("health/", monitoring.HealthView.as_view(), name="health"),
    path("schema/", docs.SchemaView.as_view(), name="schema"),
    path("docs/", docs.SwaggerPage.as_view(), name="swagger"),
    path("redoc/", docs.RedocPage.as_view(), name="redoc"),
    re_path(r"^.*$", docs.not_found, name="unknown"),
]
