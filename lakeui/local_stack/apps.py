from django.apps import AppConfig


class LocalStackConfig(AppConfig):
    name = "lakeui.local_stack"
    label = "local_stack"
    verbose_name = "Sign-in links"
