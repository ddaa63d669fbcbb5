from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "lakeui.api"
    label = "api"
    verbose_name = "Access tokens"
