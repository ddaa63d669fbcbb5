from django.apps import AppConfig


class ConflictsConfig(AppConfig):
    name = "lakeui.conflicts"
    label = "conflicts"
    default_auto_field = "django.db.models.BigAutoField"
