// Draws the OpenAPI document to read. Search needs a worker made from a blob, which is not let in.
"use strict";

const place = document.getElementById("docs");

window.Redoc.init(
  place.dataset.schema,
  { disableSearch: true, nonce: place.dataset.nonce, theme: { typography: { fontFamily: "system-ui, sans-serif", headings: { fontFamily: "system-ui, sans-serif" } } } },
  place,
);
