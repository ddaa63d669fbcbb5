from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "lakeui.catalog"
    label = "catalog"
    verbose_name = "Tables and versions"
