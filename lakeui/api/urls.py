"""Addresses of the REST face, under /api/v1/."""

from django.urls import URLPattern, path, re_path

from lakeui.api.access import (
    AuditList,
    EverySessionList,
    EveryTokenList,
    SessionDetail,
    SessionList,
    TokenDetail,
    TokenList,
)
from lakeui.api.conflicts.conflicts import (
    ConflictCosts,
    ConflictDetail,
    ConflictList,
    ConflictRowValues,
    Exceptions,
    TableConflictList,
)
from lakeui.api.conflicts.explain import ConflictExplain
from lakeui.api.conflicts.fixes import ConflictRerunDetail, ConflictTrialAnswers
from lakeui.api.conflicts.pipelines import PipelineEvents
from lakeui.api.conflicts.repeated import RepeatedConflictDetail, RepeatedConflictList
from lakeui.api.docs import RedocPage, SchemaView, SwaggerPage, not_found
from lakeui.api.jobs import (
    JobCancel,
    JobDetail,
    JobEventList,
    JobForecastDetail,
    JobList,
    JobRetry,
    JobStream,
    RunGrid,
    ScheduleDetail,
    ScheduleList,
    ScheduleRun,
    TableJobList,
    TableScheduleList,
)
from lakeui.api.monitoring import (
    Alerts,
    ChannelDetail,
    ChannelList,
    ChannelTest,
    DeliveryList,
    HealthView,
    Monitoring,
    ReadCancel,
    ReadList,
    RuleDetail,
    RuleList,
)
from lakeui.api.overview import AttentionView, Glossary, MuteDetail, MuteList, Overview, Search
from lakeui.api.streaming import allow_waiting, stream_view
from lakeui.api.tables.discover import (
    DiscoveredTableList,
    DiscoveryContinue,
    DiscoveryDetail,
    DiscoveryDismiss,
    DiscoveryList,
    DiscoveryRegister,
)
from lakeui.api.tables.eligibility import EligibilityDetail
from lakeui.api.tables.history import (
    Diff,
    GrowthDetail,
    LayoutDetail,
    LiveFileList,
    TimelineDetail,
    VersionDetail,
    VersionFileList,
    VersionList,
)
from lakeui.api.tables.isolation import (
    Concurrency,
    ConcurrencyLanes,
    Isolation,
    Matrix,
    OverlapList,
    ReorderedList,
    WhatIfDetail,
)
from lakeui.api.tables.rows import RowDiff, TablePreview
from lakeui.api.tables.schema import ColumnList, KeyDetail, KeyList, TableSchema
from lakeui.api.tables.tables import (
    GrantDetail,
    GrantList,
    QuietHoursOfTable,
    TableDetail,
    TableList,
    TableStream,
)
from lakeui.api.tables.uploads import UploadPreview, Uploads

app_name = "api"

urlpatterns: list[URLPattern] = [
    path("glossary/", Glossary.as_view(), name="glossary"),
    path("search/", Search.as_view(), name="search"),
    path("overview/", Overview.as_view(), name="overview"),
    path("attention/", AttentionView.as_view(), name="attention"),
    path("attention/mutes/", MuteList.as_view(), name="mutes"),
    path("attention/mutes/<int:mute_id>/", MuteDetail.as_view(), name="mute"),
    path("tables/", TableList.as_view(), name="tables"),
    path("tables/<int:table_id>/", allow_waiting(TableDetail.as_view()), name="table"),
    path("tables/<int:table_id>/stream/", stream_view(TableStream.as_view()), name="table-stream"),
    path("tables/<int:table_id>/versions/", VersionList.as_view(), name="versions"),
    path("tables/<int:table_id>/versions/<int:version>/", VersionDetail.as_view(), name="version"),
    path(
        "tables/<int:table_id>/versions/<int:version>/files/",
        VersionFileList.as_view(),
        name="version-files",
    ),
    path("tables/<int:table_id>/files/", LiveFileList.as_view(), name="files"),
    path("tables/<int:table_id>/timeline/", TimelineDetail.as_view(), name="timeline"),
    path("tables/<int:table_id>/growth/", GrowthDetail.as_view(), name="growth"),
    path("tables/<int:table_id>/layout/", LayoutDetail.as_view(), name="layout"),
    path("tables/<int:table_id>/preview/", TablePreview.as_view(), name="preview"),
    path("tables/<int:table_id>/schema/", TableSchema.as_view(), name="table-schema"),
    path("tables/<int:table_id>/columns/", ColumnList.as_view(), name="columns"),
    path("tables/<int:table_id>/keys/", KeyList.as_view(), name="keys"),
    path("tables/<int:table_id>/keys/<int:key_id>/", KeyDetail.as_view(), name="key"),
    path("tables/<int:table_id>/diff/<int:older>...<int:newer>/", Diff.as_view(), name="diff"),
    path(
        "tables/<int:table_id>/diff/<int:older>...<int:newer>/rows/",
        RowDiff.as_view(),
        name="row-diff",
    ),
    path("tables/<int:table_id>/conflicts/", TableConflictList.as_view(), name="table-conflicts"),
    path("tables/<int:table_id>/jobs/", TableJobList.as_view(), name="table-jobs"),
    path("tables/<int:table_id>/forecast/", JobForecastDetail.as_view(), name="forecast"),
    path("tables/<int:table_id>/eligibility/", EligibilityDetail.as_view(), name="eligibility"),
    path("tables/<int:table_id>/quiet-hours/", QuietHoursOfTable.as_view(), name="quiet-hours"),
    path("tables/<int:table_id>/isolation/", Isolation.as_view(), name="isolation"),
    path("tables/<int:table_id>/matrix/", Matrix.as_view(), name="matrix"),
    path("tables/<int:table_id>/overlaps/", OverlapList.as_view(), name="overlaps"),
    path("tables/<int:table_id>/reordered/", ReorderedList.as_view(), name="reordered"),
    path("tables/<int:table_id>/what-if/", WhatIfDetail.as_view(), name="what-if"),
    path("tables/<int:table_id>/schedules/", TableScheduleList.as_view(), name="table-schedules"),
    path("tables/<int:table_id>/concurrency/", Concurrency.as_view(), name="concurrency"),
    path("tables/<int:table_id>/concurrency/lanes/", ConcurrencyLanes.as_view(), name="lanes"),
    path("tables/<int:table_id>/grants/", GrantList.as_view(), name="grants"),
    path("tables/<int:table_id>/grants/<str:username>/", GrantDetail.as_view(), name="grant"),
    path("discoveries/", DiscoveryList.as_view(), name="discoveries"),
    path("discoveries/<int:discovery_id>/", DiscoveryDetail.as_view(), name="discovery"),
    path(
        "discoveries/<int:discovery_id>/tables/",
        DiscoveredTableList.as_view(),
        name="discovered-tables",
    ),
    path(
        "discoveries/<int:discovery_id>:continue",
        DiscoveryContinue.as_view(),
        name="discovery-continue",
    ),
    path(
        "discoveries/<int:discovery_id>:dismiss",
        DiscoveryDismiss.as_view(),
        name="discovery-dismiss",
    ),
    path(
        "discoveries/<int:discovery_id>:register",
        DiscoveryRegister.as_view(),
        name="discovery-register",
    ),
    path("jobs/", JobList.as_view(), name="jobs"),
    path("jobs/<uuid:job_id>/", allow_waiting(JobDetail.as_view()), name="job"),
    path("jobs/<uuid:job_id>/stream/", stream_view(JobStream.as_view()), name="job-stream"),
    path("jobs/<uuid:job_id>/events/", JobEventList.as_view(), name="job-events"),
    path("jobs/<uuid:job_id>:cancel", JobCancel.as_view(), name="job-cancel"),
    path("jobs/<uuid:job_id>:retry", JobRetry.as_view(), name="job-retry"),
    path("conflicts/", ConflictList.as_view(), name="conflicts"),
    path("conflicts/costs/", ConflictCosts.as_view(), name="conflict-costs"),
    path("conflicts/exceptions/", Exceptions.as_view(), name="exceptions"),
    path("conflicts/explain/", ConflictExplain.as_view(), name="explain"),
    path("conflicts/repeated/", RepeatedConflictList.as_view(), name="conflict-repeated"),
    path(
        "conflicts/repeated/<int:pair_id>/",
        RepeatedConflictDetail.as_view(),
        name="conflict-repeated-detail",
    ),
    path("conflicts/<int:conflict_id>/", ConflictDetail.as_view(), name="conflict"),
    path("conflicts/<int:conflict_id>/rows/", ConflictRowValues.as_view(), name="conflict-rows"),
    path(
        "conflicts/<int:conflict_id>/trials/",
        ConflictTrialAnswers.as_view(),
        name="conflict-trials",
    ),
    path(
        "conflicts/<int:conflict_id>/rerun/", ConflictRerunDetail.as_view(), name="conflict-rerun"
    ),
    path("pipelines/events/", PipelineEvents.as_view(), name="pipeline-events"),
    path("uploads/<uuid:upload_id>/preview/", UploadPreview.as_view(), name="upload-preview"),
    path("uploads/", Uploads.as_view(), name="uploads"),
    path("schedules/", ScheduleList.as_view(), name="schedules"),
    path("schedules/runs/", RunGrid.as_view(), name="run-grid"),
    path("schedules/<int:schedule_id>/", ScheduleDetail.as_view(), name="schedule"),
    path("schedules/<int:schedule_id>:run", ScheduleRun.as_view(), name="schedule-run"),
    path("audit/", AuditList.as_view(), name="audit"),
    path("tokens/", TokenList.as_view(), name="tokens"),
    path("tokens/all/", EveryTokenList.as_view(), name="all-tokens"),
    path("tokens/<uuid:token_id>/", TokenDetail.as_view(), name="token"),
    path("sessions/", SessionList.as_view(), name="sessions"),
    path("sessions/all/", EverySessionList.as_view(), name="all-sessions"),
    path("sessions/<uuid:session_id>/", SessionDetail.as_view(), name="session"),
    path("monitoring/", Monitoring.as_view(), name="monitoring"),
    path("monitoring/alerts/", Alerts.as_view(), name="alerts"),
    path("monitoring/reads/", ReadList.as_view(), name="reads"),
    path("monitoring/reads/<uuid:read_id>:cancel", ReadCancel.as_view(), name="read-cancel"),
    path("alerts/channels/", ChannelList.as_view(), name="alert-channels"),
    path("alerts/channels/<int:channel_id>/", ChannelDetail.as_view(), name="alert-channel"),
    path("alerts/channels/<int:channel_id>:test", ChannelTest.as_view(), name="alert-test"),
    path("alerts/rules/", RuleList.as_view(), name="alert-rules"),
    path("alerts/rules/<int:rule_id>/", RuleDetail.as_view(), name="alert-rule"),
    path("alerts/deliveries/", DeliveryList.as_view(), name="alert-deliveries"),
    path("health/", HealthView.as_view(), name="health"),
    path("schema/", SchemaView.as_view(), name="schema"),
    path("docs/", SwaggerPage.as_view(), name="swagger"),
    path("redoc/", RedocPage.as_view(), name="redoc"),
    re_path(r"^.*$", not_found, name="unknown"),
]
