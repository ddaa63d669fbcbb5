"""Addresses of this face."""

from django.urls import URLPattern, path

from lakeui.monitoring import views

urlpatterns: list[URLPattern] = [
    path("livez", views.livez, name="livez"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", views.metrics, name="metrics"),
]
