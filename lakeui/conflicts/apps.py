from django.apps import AppConfig


class ConflictsConfig(AppConfig):
    name = "lakeui.conflicts"
    label = "conflicts"
    verbose_name = "Conflicts"
