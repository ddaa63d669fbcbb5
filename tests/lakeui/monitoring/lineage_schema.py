"""OpenLineage's requirements for an event: by the client's typed classes, and by its JSON schema."""

import json
import os
from functools import cache
from pathlib import Path
from urllib.parse import urldefrag, urlsplit
from urllib.request import urlopen

import attr
from jsonschema import Draft202012Validator, FormatChecker
from openlineage.client import event_v2, facet_v2
from openlineage.client.facet_v2 import BaseFacet
from referencing import Registry, Resource

SPECIFICATION = os.environ.get("OPENLINEAGE_SPEC", "")  # a directory that holds spec/…


def facets_of(event):
    """Yield every facet of an event with its location."""
    places = [("run", event["run"]), ("job", event["job"])]
    places += [(kind, found) for kind in ("inputs", "outputs") for found in event[kind]]
    for place, found in places:
        for group in ("facets", "inputFacets", "outputFacets"):
            for name, facet in found.get(group, {}).items():
                yield f"{place}.{name}", facet


def check_types(event):
    """Check that each part fits the client's class: nothing is missing or unknown."""
    run, job = event["run"], event["job"]
    event_v2.RunEvent(
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=event_v2.Run(run["runId"]),
        job=event_v2.Job(job["namespace"], job["name"]),
        eventType=event_v2.RunState(event["eventType"]),
    )
    assert set(event) <= {field.name for field in attr.fields(event_v2.RunEvent)}
    for found in event["inputs"] + event["outputs"]:
        assert found["namespace"]
        assert found["name"]
    for place, facet in facets_of(event):
        kind = _kinds()[facet["_schemaURL"]]
        said = {name: value for name, value in facet.items() if not name.startswith("_")}
        assert kind(**said), place
        assert facet["_producer"] == event["producer"], place


def check_schema(event):
    """Check the event against the documents that it and each facet name."""
    for url, said in [
        (event["schemaURL"], event),
        *((f["_schemaURL"], f) for _, f in facets_of(event)),
    ]:
        schema = {"$ref": url}
        checker = Draft202012Validator(
            schema, registry=Registry(retrieve=_document), format_checker=FormatChecker()
        )
        checker.validate(said)


@cache
def _kinds():
    found, left = {}, [BaseFacet]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        found[kind._get_schema()] = kind
    assert facet_v2
    return found


@cache
def _document(url):
    """Return the document at an address, from the directory if one is named.

    Raises:
        OSError: it cannot be reached.
    """
    address = urldefrag(url).url
    if SPECIFICATION:
        text = (Path(SPECIFICATION) / urlsplit(address).path.lstrip("/")).read_text("utf-8")
    else:
        assert address.startswith("https://openlineage.io/spec/")
        with urlopen(address, timeout=5) as answer:  # noqa: S310 - the specification's
            text = answer.read()
    return Resource.from_contents(json.loads(text))


def first_document():
    """Fetch the specification's own document.

    Raises:
        OSError: it cannot be reached.
    """
    return _document("https://openlineage.io/spec/2-0-2/OpenLineage.json")
