"""The OpenAPI document and two pages that render it, without external or inline resources.

Redoc creates style elements while it runs; a nonce of the request admits only these.
"""

from typing import Any

from csp.constants import NONCE
from csp.decorators import csp_update
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import TemplateView
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.views import SpectacularAPIView

from lakeui.api.problems import problem_response, status_problem


class SchemaView(SpectacularAPIView):
    """The OpenAPI 3.1 document, as JSON or YAML."""

    renderer_classes = [
        OpenApiJsonRenderer2,
        OpenApiJsonRenderer,
        OpenApiYamlRenderer2,
        OpenApiYamlRenderer,
    ]


class SwaggerPage(TemplateView):
    """The document, to try out."""

    template_name = "api/swagger.html"


@method_decorator(csp_update({"style-src": [NONCE]}), name="dispatch")
class RedocPage(TemplateView):
    """The document, to read."""

    template_name = "api/redoc.html"


@csrf_exempt
def not_found(request: HttpRequest, *_args: Any, **_kwargs: Any) -> HttpResponse:
    """Any other address under the REST face."""
    return problem_response(request, status_problem(404))
