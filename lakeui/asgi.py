"""The web server's entry."""

import multiprocessing
import os
import signal
import sys
import threading

from django.core.asgi import get_asgi_application
from django.urls import get_resolver

from lakeui import tracing
from lakeui.api.bodies import BoundedBodies, refuse_to_queue
from lakeui.monitoring.client_address import scope_network
from lakeui.request_turns import RequestsInTurn

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lakeui.settings")
SWITCH_S = 0.0005
"""How long a thread keeps Python's lock while others wait for it; Python's own 5 ms are paid after
each query and each step of the event loop, once for every thread that computes."""


def _end_with_parent() -> None:
    """End this process if its parent was killed: it would keep the port from the next one."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


sys.setswitchinterval(SWITCH_S)
threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
tracing.start("lakeui-web")
tracing.trace_requests()
application = RequestsInTurn(BoundedBodies(get_asgi_application()), scope_network, refuse_to_queue)
_ = get_resolver().url_patterns  # a second of imports, which would delay the first request
