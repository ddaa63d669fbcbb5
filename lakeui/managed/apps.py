from django.apps import AppConfig


class ManagedConfig(AppConfig):
    name = "lakeui.managed"
    label = "managed"
    verbose_name = "Catalog"
