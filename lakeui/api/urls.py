"""Addresses of this face."""

try:
    from lakeui.api.addresses import app_name, urlpatterns
except ModuleNotFoundError:
    app_name, urlpatterns = "api", []
