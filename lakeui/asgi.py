"""The web server's entry."""

import os

from django.core.asgi import get_asgi_application
from django.urls import get_resolver

from lakeui import tracing
from lakeui.api.bodies import BoundedBodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lakeui.settings")

tracing.start("lakeui-web")
tracing.trace_requests()
application = BoundedBodies(get_asgi_application())
_ = get_resolver().url_patterns  # a second of imports, which would delay the first request
