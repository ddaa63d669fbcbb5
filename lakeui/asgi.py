"""The web server's entry."""

import os

from django.core.asgi import get_asgi_application

from lakeui.api.bodies import BoundedBodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lakeui.settings")

application = BoundedBodies(get_asgi_application())
