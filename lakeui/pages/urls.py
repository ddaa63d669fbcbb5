"""Addresses of the pages."""

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, path

from lakeui.pages import (
    conflicts,
    history,
    job_form,
    jobs,
    overview,
    preferences,
    register,
    search,
    session,
    streams,
    tables,
)

urlpatterns: list[URLPattern] = [
    path("", overview.overview, name="overview"),
    path("tables/", tables.table_list, name="table-list"),
    path("tables/register/", register.register, name="table-register"),
    path("tables/upload/", register.upload, name="table-upload"),
    path("tables/<int:pk>/", tables.table_page, name="table"),
    path("tables/<int:pk>/refresh/", tables.table_refresh, name="table-refresh"),
    path("tables/<int:pk>/history/", history.history, name="table-history"),
    path("tables/<int:pk>/history/<int:version>/", history.version, name="table-version"),
    path("jobs/", jobs.job_list, name="job-list"),
    path("jobs/new/", job_form.job_new, name="job-new"),
    path("jobs/stream/", streams.jobs_stream, name="jobs-stream"),
    path("jobs/<uuid:pk>/", jobs.job_page, name="job"),
    path("jobs/<uuid:pk>/log/", jobs.job_log, name="job-log"),
    path("jobs/<uuid:pk>/stream/", streams.job_stream, name="job-stream"),
    path("jobs/<uuid:pk>/cancel/", jobs.job_cancel, name="job-cancel"),
    path("jobs/<uuid:pk>/retry/", jobs.job_retry, name="job-retry"),
    path("conflicts/", conflicts.conflict_list, name="conflict-list"),
    path("conflicts/<int:pk>/", conflicts.conflict_page, name="conflict"),
    path("search/", search.search, name="search"),
    path("preferences/", preferences.preferences, name="preferences"),
    path("login/", session.SignInView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
