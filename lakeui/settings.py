"""Settings: the embedded stack by default, PostgreSQL and Redis by environment.

`LAKEUI_HOME` holds all data of the embedded stack (database, demo lake, uploads, logs).
docs/operations.md lists every variable.
"""

import os
from pathlib import Path

import environ
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from lakeui.api.enum_names import ENUM_NAMES
from lakeui.local_stack.home import command_name, home, page_files, read_roots, read_url
from lakeui.monitoring import log_lines
from lakeui.task_names import (
    FIRE_SCHEDULES,
    LIGHT_QUEUE,
    LOOK_AT_ORDER,
    MIRROR_ALL,
    NOTE_LINEAGE,
    SWEEP_LEASES,
    TEND_CATALOG,
    TIDY_UPLOADS,
    WATCH_FOR_ALERTS,
)

BASE_DIR = page_files()
env = environ.Env()

LAKEUI_HOME = Path(env.str("LAKEUI_HOME", default=str(home()))).resolve()
EMBEDDED = env.bool("LAKEUI_EMBEDDED", default=False)  # set by `manage.py up` and by tests
DEBUG = env.bool("DEBUG", default=False)
CONFIRM_ROW_SHARE = env.float("CONFIRM_ROW_SHARE", default=0.2)
READ_ONLY = env.bool("READ_ONLY", default=False)
READ_ONLY_COMMANDS = {"test", "check", "makemigrations", "spectacular", "collectstatic"}

SECRET_KEY = env.str("SECRET_KEY", default="")
_key_file = LAKEUI_HOME / "secret_key"
if not SECRET_KEY and _key_file.is_file():
    SECRET_KEY = _key_file.read_text("utf-8").strip()
if len(SECRET_KEY) < 32:
    _problem = "SECRET_KEY is missing or shorter than 32 characters. Set it in the environment."
    raise ImproperlyConfigured(_problem)

ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "lakeui.managed",
    "lakeui.catalog",
    "lakeui.jobs",
    "lakeui.conflicts",
    "lakeui.monitoring",
    "lakeui.sign_on",
    "lakeui.api",
    "lakeui.pages",
    "lakeui.local_stack",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "django_filters",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_celery_beat",
    "auditlog",
    "csp",
]

MIDDLEWARE = [
    "lakeui.api.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "lakeui.api.middleware.NotModifiedMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "lakeui.sign_on.proxy.ProxyMiddleware",
    "lakeui.monitoring.client_address.RequestLogMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "lakeui.pages.access.sign_in.SignInAgainMiddleware",
    "lakeui.pages.access.account.ZoneMiddleware",
    "lakeui.monitoring.audit.AuditMiddleware",
]

ROOT_URLCONF = "lakeui.urls"
ASGI_APPLICATION = "lakeui.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "lakeui.local_stack.context.demo",
                "lakeui.pages.frame.frame",
            ],
        },
    },
]

DATABASES = {
    "default": env.db("DATABASE_URL", default=f"sqlite:///{LAKEUI_HOME / 'lakeui.sqlite3'}")
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": env.float("SQLITE_TIMEOUT_SECONDS", default=20.0),
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Sign-in; lakeui.sign_on.configuration refuses invalid combinations.
LOCAL_ACCOUNTS = env.bool("LOCAL_ACCOUNTS", default=True)
AUTHENTICATION_BACKENDS = [
    *(["django.contrib.auth.backends.ModelBackend"] if LOCAL_ACCOUNTS else []),
    "lakeui.sign_on.sessions.WithoutPassword",
]
OIDC_ISSUER = env.str("OIDC_ISSUER", default="")
OIDC_CLIENT_ID = env.str("OIDC_CLIENT_ID", default="")
OIDC_CLIENT_SECRET = env.str("OIDC_CLIENT_SECRET", default="")
OIDC_SCOPES = env.str("OIDC_SCOPES", default="openid profile email")
OIDC_USERNAME_CLAIM = env.str("OIDC_USERNAME_CLAIM", default="preferred_username")
OIDC_GROUPS_CLAIM = env.str("OIDC_GROUPS_CLAIM", default="groups")
OIDC_FOLLOW_EMAIL = env.bool("OIDC_FOLLOW_EMAIL", default=False)
OIDC_LABEL = env.str("OIDC_LABEL", default="")
OIDC_TIMEOUT_SECONDS = env.float("OIDC_TIMEOUT_SECONDS", default=10.0)
PROXY_USER_HEADER = env.str("PROXY_USER_HEADER", default="")
PROXY_GROUPS_HEADER = env.str("PROXY_GROUPS_HEADER", default="")
PROXY_ADDRESSES = env.list("PROXY_ADDRESSES", default=[])
SIGN_ON_ROLES = env.json("SIGN_ON_ROLES", default={})  # {group of the provider: role}
SIGN_ON_SESSION_HOURS = env.float("SIGN_ON_SESSION_HOURS", default=12.0)
LOGIN_URL = "login"
CSRF_FAILURE_VIEW = "lakeui.pages.errors.csrf_failure"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_SAMESITE = "Lax"
HTTPS_ONLY = env.bool("HTTPS_ONLY", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS_ONLY
TRUSTED_PROXIES = env.int("TRUSTED_PROXIES", default=0)
if TRUSTED_PROXIES < 0:
    _problem = (
        "TRUSTED_PROXIES is below 0. Set it to the number of proxies in front of the web process."
    )
    raise ImproperlyConfigured(_problem)
if TRUSTED_PROXIES:  # they end TLS, and say so
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = env.int("HSTS_SECONDS", default=3600 if HTTPS_ONLY else 0)
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    },
}

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = LAKEUI_HOME / "static"
WHITENOISE_USE_FINDERS = True
DATA_UPLOAD_MAX_MEMORY_SIZE = 5 * 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 5 * 1024 * 1024
MAX_UPLOAD_BYTES = env.int("MAX_UPLOAD_BYTES", default=1024**3)
UPLOAD_BYTES_PER_PERSON = env.int("UPLOAD_BYTES_PER_PERSON", default=10 * 1024**3)
PIPELINE_KEEP_DAYS = env.int("PIPELINE_KEEP_DAYS", default=30)
AUDIT_KEEP_DAYS = env.int("AUDIT_KEEP_DAYS", default=0)  # 0: the audit log is kept for ever
UPLOAD_KEEP_DAYS = env.int("UPLOAD_KEEP_DAYS", default=7)  # after that no ended job needs it

# Tables and sources live under these roots and nowhere else.
LAKE_HOME = env.str("LAKE_HOME", default=str(LAKEUI_HOME / "lake"))  # where jobs put new tables
UPLOAD_HOME = LAKEUI_HOME / "uploads"
_table_roots = env.list("TABLE_ROOTS", default=read_roots(LAKEUI_HOME, "TABLE_ROOTS"))
_source_roots = env.list("SOURCE_ROOTS", default=read_roots(LAKEUI_HOME, "SOURCE_ROOTS"))
TABLE_ROOTS = [*_table_roots, LAKE_HOME]
START_COMMAND = "lakeui up" if command_name() == "lakeui" else "make run"
DEMO_HOME = LAKEUI_HOME / "demo"  # files that the demo's jobs load
SOURCE_ROOTS = [*_source_roots, str(UPLOAD_HOME), str(DEMO_HOME)]
TABLE_STORAGE_OPTIONS = env.json(
    "TABLE_STORAGE_OPTIONS", default={}
)  # {uri prefix: {option: value}}

CATALOG_ROOT = env.str("CATALOG_ROOT", default=f"{LAKE_HOME.rstrip('/')}/managed")
CATALOG_MAX_UNPUBLISHED = env.int("CATALOG_MAX_UNPUBLISHED", default=50)  # commits of a table
CATALOG_VENDS_KEYS = env.bool("CATALOG_VENDS_KEYS", default=False)

DISCOVER_MAX_DIRECTORIES = env.int("DISCOVER_MAX_DIRECTORIES", default=100_000)
MIRROR_MAX_LIVE_FILES = env.int("MIRROR_MAX_LIVE_FILES", default=20_000)
MIRROR_MAX_FILES_A_COMMIT = env.int("MIRROR_MAX_FILES_A_COMMIT", default=500)
MIRROR_MAX_RAW_BYTES = env.int("MIRROR_MAX_RAW_BYTES", default=64 * 1024)
MIRROR_COMMITS_A_BATCH = env.int("MIRROR_COMMITS_A_BATCH", default=200)
MIRROR_HELD_BYTES = env.int("MIRROR_HELD_BYTES", default=128 * 2**20)
SMALL_FILE_BYTES = env.int("SMALL_FILE_BYTES", default=32 * 1024 * 1024)
ATTENTION_ABORTED = env.int("ATTENTION_ABORTED", default=3)  # aborted writes of a table in 24 h
ATTENTION_WASTED_MINUTES = env.int("ATTENTION_WASTED_MINUTES", default=60)
ATTENTION_METADATA_COST = env.int("ATTENTION_METADATA_COST", default=2)
ATTENTION_ERASURE_DAYS = env.int("ATTENTION_ERASURE_DAYS", default=30)
ATTENTION_UNKNOWN_DAYS = env.int("ATTENTION_UNKNOWN_DAYS", default=7)
ATTENTION_STREAM_DAYS = env.int("ATTENTION_STREAM_DAYS", default=7)
ATTENTION_FAILED_HOURS = env.int("ATTENTION_FAILED_HOURS", default=24)
ATTENTION_WAIT_MINUTES = env.int("ATTENTION_WAIT_MINUTES", default=10)
ATTENTION_MIRROR_MINUTES = env.int("ATTENTION_MIRROR_MINUTES", default=15)
ATTENTION_SMALL_FILES = env.int("ATTENTION_SMALL_FILES", default=10)
ATTENTION_VACUUM_BYTES = env.int("ATTENTION_VACUUM_BYTES", default=64 * 1024 * 1024)
ATTENTION_VACUUM_SHARE = env.float("ATTENTION_VACUUM_SHARE", default=0.5)
TRACES_ENDPOINT = env.str("OTEL_EXPORTER_OTLP_ENDPOINT", default="")  # a collector, by OTLP/HTTP
INSTALLATION_NAME = env.str("INSTALLATION_NAME", default="")  # shown beside the brand

JOB_LEASE_SECONDS = env.int("JOB_LEASE_SECONDS", default=30)
JOB_HEARTBEAT_SECONDS = env.int("JOB_HEARTBEAT_SECONDS", default=5)
WORKER_REPORT_SECONDS = env.int("WORKER_REPORT_SECONDS", default=5)
REHEARSAL_LIMIT_SECONDS = env.int("REHEARSAL_LIMIT_SECONDS", default=120)
JOB_MAX_LOSSES = env.int("JOB_MAX_LOSSES", default=5)
DATABASE_PATIENCE_SECONDS = env.float("DATABASE_PATIENCE_SECONDS", default=120.0)
JOB_MAX_RETRIES = env.int("JOB_MAX_RETRIES", default=20)
JOB_TIME_LIMIT_SECONDS = env.int("JOB_TIME_LIMIT_SECONDS", default=6 * 3600)  # 0: none
JOB_MAX_TIME_LIMIT_SECONDS = env.int("JOB_MAX_TIME_LIMIT_SECONDS", default=7 * 86_400)
JOBS_PER_PERSON = env.int("JOBS_PER_PERSON", default=1000)
DRY_RUN_SECONDS = env.int("DRY_RUN_SECONDS", default=120)
DRY_RUNS_PER_PERSON = env.int("DRY_RUNS_PER_PERSON", default=2)
READ_SECONDS = env.int("READ_SECONDS", default=30)
READ_BYTES = env.int("READ_BYTES", default=2 * 1024**3)
READS_PER_PERSON = env.int("READS_PER_PERSON", default=2)
IN_PROCESS_BYTES = env.int("IN_PROCESS_BYTES", default=64 * 1024 * 1024)  # 0: all on Spark
DRY_RUN_COUNT_BYTES = env.int("DRY_RUN_COUNT_BYTES", default=256 * 1024 * 1024)  # 0: none
ROW_CONFLICT_SECONDS = env.float("ROW_CONFLICT_SECONDS", default=10.0)
SPARK_TASK_KILL_SECONDS = env.int("SPARK_TASK_KILL_SECONDS", default=120)
SPARK_START_SECONDS = env.float("SPARK_START_SECONDS", default=180)
SPARK_CONNECTORS = Path(env.str("SPARK_CONNECTORS", default=str(LAKEUI_HOME / "connectors")))
SPARK_MASTER = env.str("SPARK_MASTER", default=f"local[{min(os.cpu_count() or 1, 8)}]")
SPARK_UI = env.bool("SPARK_UI", default=False)  # Spark's own pages, without authentication
SPARK_UI_URL = env.str("SPARK_UI_URL", default="")  # where they are, with {application} in it
if SPARK_UI_URL and not SPARK_UI_URL.startswith(("http://", "https://")):
    _problem = "SPARK_UI_URL is not a URL. It must begin with http:// or https://."
    raise ImproperlyConfigured(_problem)

_broker_file = LAKEUI_HOME / "run" / "broker_url"  # written by the running embedded stack
CELERY_BROKER_URL = env.str(
    "BROKER_URL",
    default=_broker_file.read_text("utf-8").strip()
    if _broker_file.is_file()
    else "redis://127.0.0.1:6379/0",
)
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = False  # the job row is the truth; a lost message is found by the sweeper
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 2,
    "socket_timeout": 2,  # a request waits for it, twice; workers wait longer
    "max_retries": 1,
}
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0.1, "interval_max": 0.2}
CELERY_BEAT_SCHEDULER = "lakeui.jobs.beat:Beat"
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE = {
    "sweep leases": {
        "task": SWEEP_LEASES,
        "schedule": env.float("SWEEP_SECONDS", default=10.0),
        "options": {"queue": LIGHT_QUEUE, "expires": 30},
    },
    "fire schedules": {
        "task": FIRE_SCHEDULES,
        "schedule": env.float("SCHEDULE_SECONDS", default=15.0),
        "options": {"queue": LIGHT_QUEUE, "expires": 30},
    },
    "tidy uploads": {
        "task": TIDY_UPLOADS,
        "schedule": env.float("TIDY_SECONDS", default=3600.0),
        "options": {"queue": LIGHT_QUEUE, "expires": 600},
    },
    "look at order": {
        "task": LOOK_AT_ORDER,
        "schedule": env.float("MIRROR_SECONDS", default=15.0),
        "options": {"queue": LIGHT_QUEUE, "expires": 30},
    },
    "watch for alerts": {
        "task": WATCH_FOR_ALERTS,
        "schedule": env.float("ALERT_SECONDS", default=30.0),
        "options": {"queue": LIGHT_QUEUE, "expires": 60},
    },
    "tend the catalog": {
        "task": TEND_CATALOG,
        "schedule": env.float("CATALOG_SECONDS", default=10.0),
        "options": {"queue": LIGHT_QUEUE, "expires": 30},
    },
    "sync the mirror of every table": {
        "task": MIRROR_ALL,
        "schedule": env.float("MIRROR_SECONDS", default=15.0),
        "options": {"queue": LIGHT_QUEUE, "expires": 30},
    },
}

# Alerts: where links in them lead, who may be told, and for how long delivery is tried.
WORKSPACE_URL = env.str("WORKSPACE_URL", default="")  # of the notebooks and jobs that logs name
_stack_url = read_url(LAKEUI_HOME) if EMBEDDED else ""
PUBLIC_URL = env.str("PUBLIC_URL", default="") or next(iter(CSRF_TRUSTED_ORIGINS), _stack_url)
ALERT_TIMEOUT_SECONDS = env.float("ALERT_TIMEOUT_SECONDS", default=10.0)
ALERT_GIVE_UP_HOURS = env.float("ALERT_GIVE_UP_HOURS", default=24.0)
ALERT_KEEP_DAYS = env.int("ALERT_KEEP_DAYS", default=30)
ALERT_WEBHOOK_HOSTS = env.list("ALERT_WEBHOOK_HOSTS", default=[])
EMAIL_URL = env.str("EMAIL_URL", default="")  # smtp+tls://user:password@host:587
if EMAIL_URL:
    vars().update(env.email_url("EMAIL_URL"))
    if "smtp" in vars()["EMAIL_BACKEND"]:
        EMAIL_BACKEND = "lakeui.monitoring.alerting.mail.BoundedBackend"
EMAIL_TIMEOUT = ALERT_TIMEOUT_SECONDS
DEFAULT_FROM_EMAIL = env.str("EMAIL_FROM", default="lakeui@localhost")

# Lineage: by OpenLineage's own variables, as its other producers have them.
LINEAGE_URL = env.str("OPENLINEAGE_URL", default="")  # http(s)://host, or file:///path
LINEAGE_ENDPOINT = env.str("OPENLINEAGE_ENDPOINT", default="api/v1/lineage")
LINEAGE_API_KEY = env.str("OPENLINEAGE_API_KEY", default="")
LINEAGE_NAMESPACE = env.str("OPENLINEAGE_NAMESPACE", default="") or INSTALLATION_NAME or "lakeui"
LINEAGE_TIMEOUT_SECONDS = env.float("LINEAGE_TIMEOUT_SECONDS", default=10.0)
LINEAGE_GIVE_UP_HOURS = env.float("LINEAGE_GIVE_UP_HOURS", default=24.0)
if LINEAGE_URL:
    CELERY_BEAT_SCHEDULE["note lineage"] = {
        "task": NOTE_LINEAGE,
        "schedule": env.float("LINEAGE_SECONDS", default=10.0),
        "options": {"queue": LIGHT_QUEUE, "expires": 30},
    }

# Each web process counts for itself unless they share a Redis: rates of REST, tries to sign in.
CACHE_URL = env.str("CACHE_URL", default="")
CACHES = {
    "default": {"BACKEND": "lakeui.monitoring.shared_cache.SharedCache", "LOCATION": CACHE_URL}
    if CACHE_URL
    else {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    }
}

METRICS_TOKEN = env.str("METRICS_TOKEN", default="")  # Prometheus' bearer token
METRICS_OPEN = env.bool("METRICS_OPEN", default=EMBEDDED)  # the embedded stack listens locally only
API_RATE_PERSON = env.str("API_RATE_PERSON", default="1200/min")
API_RATE_CATALOG = env.str("API_RATE_CATALOG", default="6000/min")
API_RATE_REPORTS = env.str("API_RATE_REPORTS", default="300/min")
API_RATE_ANONYMOUS = env.str("API_RATE_ANONYMOUS", default="60/min")
REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "lakeui.api.authentication.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "lakeui.api.authentication.ChangesAllowed",
    ],
    "DEFAULT_THROTTLE_CLASSES": [
        "lakeui.api.throttles.PersonThrottle",
        "lakeui.api.throttles.AnonymousThrottle",
    ],
    "DEFAULT_RENDERER_CLASSES": ["lakeui.api.rendering.SafeJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["lakeui.api.rendering.BoundedJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "lakeui.api.listing.KeysetPaging",
    "DEFAULT_FILTER_BACKENDS": ["lakeui.api.listing.StrictFilterBackend"],
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "lakeui.api.problems.handle_exception",
    "URL_FORMAT_OVERRIDE": None,
}
AUDITLOG_LOGENTRY_MODEL = "auditlog.LogEntry"  # the default, which a migration names
KNOX_TOKEN_MODEL = "api.ApiToken"  # noqa: S105 - a model's name
REST_KNOX = {"AUTH_HEADER_PREFIX": "Bearer", "TOKEN_PREFIX": "lake_"}
SPECTACULAR_SETTINGS = {
    "TITLE": "lakeui",
    "DESCRIPTION": "Delta tables, their concurrent writers, and the causes of aborted writes.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": ENUM_NAMES,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "lakeui.api.schema.describe_commands",
        "lakeui.api.schema.describe_problems",
    ],
}

LOG_FORMAT = env.str("LOG_FORMAT", default="text" if EMBEDDED else "json")
LOGGING = log_lines.configure(env.str("LOG_LEVEL", default="INFO"), as_json=LOG_FORMAT == "json")
os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
