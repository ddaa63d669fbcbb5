from django.apps import AppConfig


class LocalStackConfig(AppConfig):
    name = "lakeui.local_stack"
    label = "local_stack"
    default_auto_field = "django.db.models.BigAutoField"
