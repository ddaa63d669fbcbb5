// Draws the OpenAPI document. Requests that are tried out use the session of whoever looks at it.
"use strict";

const place = document.getElementById("docs");

window.SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    if (new URL(request.url, document.baseURI).origin === window.location.origin) {
      request.headers["X-CSRFToken"] = place.dataset.csrf;
    }
    return request;
  },
});
