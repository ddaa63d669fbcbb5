"""The web server's entry."""

import os

from django.core.asgi import get_asgi_application

from lakeui import tracing
from lakeui.api.bodies import BoundedBodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lakeui.settings")

tracing.start("lakeui-web")
tracing.trace_requests()
application = BoundedBodies(get_asgi_application())
