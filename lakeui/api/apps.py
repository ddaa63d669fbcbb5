from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "lakeui.api"
    label = "api"
