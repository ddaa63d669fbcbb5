"""Locations outside every allowed root, in many spellings."""

from django.conf import settings

_LAKE = str(settings.LAKE_HOME)
_OUTSIDE = (
    "/etc",
    "/etc/passwd",
    "/proc/self/environ",
    "/home/admin/.ssh",
    "/",
    "//etc",
    "/var/log",
)
_STEPS = (
    "..",
    "../..",
    "../../etc",
    "x/../../..",
    "./../..",
    "a/b/../../../..",
    "..//..",
    "x/..//..",
)
_ENCODED = (
    *(step.replace(".", "%2e") for step in _STEPS),
    *(step.replace(".", "%2E") for step in _STEPS),
    *("%252e%252e/..", "..%2f..", "%2e%2e%5c.."),
)
_SCHEMES = (
    *("file", "http", "https", "ftp", "gopher", "jdbc:sqlite", "data", "s3", "gs", "az", "abfss"),
    *("hdfs", "dbfs", "s3a", "wasb", "jar:file", "vscode", "javascript", "FILE", "memory"),
)
_TAILS = ("-elsewhere", "x", ".bak", "%00", "\n/etc", "\t../..", "/../lake2")
_ODD = (
    *("~", "~root", "$HOME", "${HOME}", "`id`", "|id", "-rf", "\\\\host\\share", "C:\\Windows"),
    *("..\\..\\etc", "CON", "\u202e/etc", "\uff0fetc", "\u2026/x", "\ufe52\ufe52/etc", "x" * 2001),
    *(
        "file:",
        "://",
        "s3://",
        "",
        " ",
        "s3:",
        "file:..",
        "file:../../etc",
        "?",
        "#",
        "*",
        "[",
        "a" * 300,
    ),
)

PLACES = sorted(
    {
        *_OUTSIDE,
        *(f"{_LAKE}/{step}" for step in _STEPS),
        *(f"{_LAKE}/x/{step}/{step}" for step in _STEPS),
        *(f"file://{place}" for place in _OUTSIDE),
        *(f"file:{place}" for place in _OUTSIDE),
        *(f"file://localhost{place}" for place in _OUTSIDE),
        *(f"file://{_LAKE}/{step}" for step in (*_STEPS, *_ENCODED)),
        *(f"{scheme}://169.254.169.254/latest/meta-data/" for scheme in _SCHEMES),
        *(f"{scheme}://127.0.0.1:6379/0" for scheme in _SCHEMES),
        *(f"{scheme}://bucket/../../etc" for scheme in _SCHEMES),
        *(f"{scheme}:///etc/passwd" for scheme in _SCHEMES),
        *(f"{scheme}://user:secret@host/x" for scheme in _SCHEMES),
        *(f"{_LAKE}{tail}" for tail in _TAILS),
        *_ODD,
    }
)
