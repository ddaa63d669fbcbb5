"""Every address: pages at the root, REST under /api/, operations beside."""

from django.contrib import admin
from django.urls import include, path, re_path

from lakeui.api.docs import not_found
from lakeui.api.unity.errors import PREFIX
from lakeui.pages.access import sign_in
from lakeui.pages.access.admin_site import name_site

name_site(admin.site)

urlpatterns = [
    path("admin/login/", sign_in.admin_sign_in),
    path("admin/logout/", sign_in.SignOutView.as_view()),
    path("admin/password_change/", sign_in.admin_password),
    path("admin/", admin.site.urls),
    path("api/v1/", include("lakeui.api.urls")),
    path(PREFIX.removeprefix("/"), include("lakeui.api.unity.urls")),
    re_path(r"^api/", not_found),
    path("", include("lakeui.monitoring.urls")),
    path("", include("lakeui.local_stack.urls")),
    path("", include("lakeui.pages.urls")),
]

handler400 = "lakeui.pages.errors.bad_request"
handler403 = "lakeui.pages.errors.forbidden"
handler404 = "lakeui.pages.errors.not_found"
handler500 = "lakeui.pages.errors.server_error"
