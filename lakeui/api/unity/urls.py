"""Addresses of Unity Catalog's REST API, under /api/2.1/unity-catalog/."""

from django.urls import path, re_path

from lakeui.api.unity import delta, preview

_TABLE = "delta/v1/catalogs/<str:catalog>/schemas/<str:schema>/tables/<str:table>"

urlpatterns = [
    path("catalogs", preview.CatalogList.as_view()),
    path("catalogs/<str:name>", preview.CatalogDetail.as_view()),
    path("schemas", preview.SchemaList.as_view()),
    path("schemas/<str:full_name>", preview.SchemaDetail.as_view()),
    path("staging-tables", preview.StagingTableList.as_view()),
    path("tables", preview.ManagedTableList.as_view()),
    path("tables/<str:full_name>", preview.ManagedTableDetail.as_view()),
    path("temporary-table-credentials", preview.TableCredentials.as_view()),
    path("delta/preview/commits", preview.CommitList.as_view()),
    path("delta/v1/config", delta.CatalogConfiguration.as_view()),
    path(
        "delta/v1/catalogs/<str:catalog>/schemas/<str:schema>/staging-tables",
        delta.DeltaStagingTableList.as_view(),
    ),
    path(
        "delta/v1/catalogs/<str:catalog>/schemas/<str:schema>/tables",
        delta.DeltaTableList.as_view(),
    ),
    path(_TABLE, delta.DeltaTableDetail.as_view()),
    path(f"{_TABLE}/credentials", delta.DeltaTableCredentials.as_view()),
    path(
        "delta/v1/staging-tables/<str:table_id>/credentials",
        delta.DeltaStagingCredentials.as_view(),
    ),
    re_path("", preview.UnknownAddress.as_view()),
]
