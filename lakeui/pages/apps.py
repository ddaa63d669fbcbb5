from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "lakeui.pages"
    label = "pages"
