from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    name = "lakeui.monitoring"
    label = "monitoring"
