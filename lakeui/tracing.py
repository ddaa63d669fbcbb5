"""OpenTelemetry traces, if `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector.

A request is a span; its job is a span below it, and keeps its place in the trace as a W3C
`traceparent`, so that workers put their attempts there. The SDK reads its other variables itself.
Packages are loaded only if tracing is on: they are the extra `tracing`.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue

_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.instrumentation")
_EXCLUDED = "OTEL_PYTHON_DJANGO_EXCLUDED_URLS"
_providers: list[TracerProvider] = []


def start(service: str) -> None:
    """Send this process's spans from now on, if a collector is named. `service` is its name there.

    Raises:
        ImproperlyConfigured: one is named, and the packages are missing.
    """
    if not settings.TRACES_ENDPOINT or _providers:
        return
    if not all(map(_is_here, _PACKAGES)):
        problem = "OTEL_EXPORTER_OTLP_ENDPOINT is set, but the packages for traces are missing: "
        raise ImproperlyConfigured(problem + "install lakeui[server,tracing].")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service}))
    address = f"{settings.TRACES_ENDPOINT.rstrip('/')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(address)))
    _providers.append(provider)


def trace_requests() -> None:
    """Have Django's requests traced. Before its middleware is loaded; after `start`."""
    if _providers:
        from opentelemetry.instrumentation.django import DjangoInstrumentor  # noqa: PLC0415

        left_out = None if _EXCLUDED in os.environ else "livez,readyz,metrics,static/"
        DjangoInstrumentor().instrument(tracer_provider=_providers[0], excluded_urls=left_out)


def stop() -> None:
    """Send pending spans, and stop."""
    while _providers:
        _providers.pop().shutdown()


def tracer() -> Tracer | None:
    """Return the tracer; None if tracing is off."""
    return _providers[0].get_tracer("lakeui") if _providers else None


def start_request_span(name: str, attributes: Mapping[str, AttributeValue]) -> str:
    """Record a span for a request, below the open one; return its traceparent, or ""."""
    making = tracer()
    if making is None:
        return ""
    from opentelemetry.propagate import inject  # noqa: PLC0415

    carrier: dict[str, str] = {}
    with making.start_as_current_span(name, attributes=attributes):
        inject(carrier)
    return carrier.get("traceparent", "")


def _is_here(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package above
        return False
