"""Addresses of this face."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
