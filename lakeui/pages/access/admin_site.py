"""Django's admin for people: named, and without the schedules that the program sets itself."""

from django.contrib.admin import AdminSite
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)

_OF_THE_BEAT = (SolarSchedule, ClockedSchedule, IntervalSchedule, CrontabSchedule, PeriodicTask)
"""Celery's. People make schedules on the page Schedules."""


def name_site(site: AdminSite) -> None:
    """Set the site's name and remove models without anything to edit."""
    site.site_header, site.site_title, site.index_title = "lakeui admin", "lakeui", "Administration"
    for model in _OF_THE_BEAT:
        if site.is_registered(model):
            site.unregister(model)
