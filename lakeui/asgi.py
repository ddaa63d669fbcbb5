"""The web server's entry."""

import multiprocessing
import os
import signal
import threading

from django.core.asgi import get_asgi_application
from django.urls import get_resolver

from lakeui import tracing
from lakeui.api.bodies import BoundedBodies, refuse_to_queue
from lakeui.monitoring.client_address import scope_network
from lakeui.request_turns import RequestsInTurn

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lakeui.settings")


def _end_with_parent() -> None:
    """End this process if its parent was killed: it would keep the port from the next one."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
tracing.start("lakeui-web")
tracing.trace_requests()
application = RequestsInTurn(BoundedBodies(get_asgi_application()), scope_network, refuse_to_queue)
_ = get_resolver().url_patterns  # a second of imports, which would delay the first request
