"""
Django's settings, built once from the environment. The variables are declared in `jobs.settings.table`.

The defaults are safe: no password has a default, and outside of DEBUG the secret key has none. Without any setting
crawlctl serves one machine: an embedded PostgreSQL and a generated key, in the directory of `VAR_DIR`.
"""

import os
from pathlib import Path

from crawlctl import __version__, languages, places
from crawlctl.access.secret import key_of_this_machine
from crawlctl.logs import configuration as logs
from crawlctl.postgres.settings import database_from_url
from jobs.lifecycle.job import Kind
from jobs.lifecycle.period import Period
from jobs.metrics import process
from jobs.settings import authorities, backups, table
from nodes.settings import node_settings
from nodes.settings.declaration import read_environment
from nodes.settings.effective import Effective
from nodes.tasks import settings as tasks

BASE_DIR = places.BASE
# The command line that starts one of our commands in a new process.
CRAWLCTL_PROGRAM = places.PROGRAM

# The table of all settings.
CRAWLCTL_SETTINGS = table.TABLE
# The values of the environment, by path. Running processes add stored settings and the command line:
# `nodes.settings.running` has the effective values.
CRAWLCTL_ENVIRONMENT = read_environment(CRAWLCTL_SETTINGS, os.environ)
_given = Effective(table=CRAWLCTL_SETTINGS, environment=CRAWLCTL_ENVIRONMENT)

# Directory of everything that crawlctl writes on this machine: the embedded database, its key, logs. Tests have a
# separate server, so that no test can touch an operator's crawl. Absolute, because the processes of a machine may have
# different current directories.
VAR_DIR = (
    Path(_given[table.VAR])
    if _given[table.VAR]
    else places.default_data_directory(os.environ) / ("test" if "PYTEST_VERSION" in os.environ else "")
).absolute()

DEBUG = _given[table.DEBUG]

# The compiled documentation belongs to the program, not to the data of this machine.
DOCUMENTATION_DIR = places.DOCUMENTATION

# Signs sessions and tokens. Machines that share a database must share it.
SECRET_KEY = _given[table.SECRET_KEY] or key_of_this_machine(VAR_DIR)

# Host names under which the web interface and the API answer. The loopback names are always included.
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", *_given[table.ALLOWED_HOSTS]]
CSRF_TRUSTED_ORIGINS = [*_given[table.TRUSTED_ORIGINS]]

# True behind a TLS proxy: cookies travel only over https, and browsers get the order to use only https.
_TLS = _given[table.TLS]
# Largest number of fields in a form: each rule on the page of a throttle policy has some twenty fields.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000
# Limit of a request body (bytes): room for a job with a hundred thousand addresses.
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 1024 * 1024
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = _TLS
SECURE_HSTS_SECONDS = 31_536_000 if _TLS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _TLS else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    # Before channels, which also has a command `runworker`: Django uses the command of the earlier entry.
    "crawlctl.apps.CrawlctlConfig",
    "crawlctl.demo.apps.DemoConfig",
    "crawlctl.drill.apps.DrillConfig",
    "jobs.apps.JobsConfig",
    "jobs.authorities.apps.AuthoritiesConfig",
    "jobs.bulk.apps.BulkConfig",
    "jobs.definitions.apps.DefinitionsConfig",
    "jobs.explain.apps.ExplainConfig",
    "jobs.exports.apps.ExportsConfig",
    "jobs.notices.apps.NoticesConfig",
    "jobs.rehearsals.apps.RehearsalsConfig",
    "jobs.retention.apps.RetentionConfig",
    "jobs.verification.apps.VerificationConfig",
    "nodes.apps.NodesConfig",
    "nodes.distributed.apps.DistributedConfig",
    "nodes.tasks.apps.TasksConfig",
    "unfold",
    # The variant that does not search for admin modules: our site registers its models, and daemons show no pages.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "channels",
    "django_q",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "knox",
    "rest_framework",
]

MIDDLEWARE = [
    # Before all others, because a probe may use any host name, and http behind a TLS proxy.
    "crawlctl.web.probes.Probes",
    "crawlctl.web.hosts.KnownHosts",
    "django.middleware.security.SecurityMiddleware",
    "crawlctl.web.security.ContentSecurityPolicy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # After the middleware of static files, which browsers may store.
    "crawlctl.web.security.NoStore",
    "crawlctl.web.stored_settings.FollowStoredSettings",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "crawlctl.access.language.SpeakLanguage",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "crawlctl.web.refusals.ShowRefusals",
]

ROOT_URLCONF = "crawlctl.urls"
ASGI_APPLICATION = "crawlctl.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [places.TEMPLATES],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "crawlctl.web.navigation.navigation",
            ],
        },
    },
]

# Without DATABASE_URL an embedded PostgreSQL runs below VAR_DIR while any process uses it.
# Address of an external server; '' for the embedded one.
CRAWLCTL_DATABASE_URL = _given[node_settings.DATABASE_URL]
# Store for backups, and for the write-ahead log of the embedded server if it is set.
CRAWLCTL_BACKUP_STORE = _given[backups.BACKUP_STORE]
CRAWLCTL_BACKUP_SHIP_EVERY = _given[backups.BACKUP_SHIP_EVERY]
DATABASES = {
    "default": database_from_url(
        _given[node_settings.DATABASE_URL],
        var_dir=VAR_DIR,
        companion="crawlctl.backups.log_copier" if CRAWLCTL_BACKUP_STORE else "",
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
AUTHENTICATION_BACKENDS = ["crawlctl.access.logins.GuardedBackend"]
# Time in which a login link is valid (seconds). Django also uses this setting for resets of passwords, which have no
# page here.
PASSWORD_RESET_TIMEOUT = 600
LOGIN_URL = "/login/"
CSRF_FAILURE_VIEW = "crawlctl.web.refusals.refuse_forgery"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"

LANGUAGE_CODE = languages.ENGLISH
TIME_ZONE = "UTC"
USE_I18N = True
# Replaces Django's functions of translation, so that English pages look up no text.
languages.install()
LANGUAGES = languages.LANGUAGES
LANGUAGE_COOKIE_NAME = "language"
# Time that a browser remembers a language without an account (seconds): a year.
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_SECURE = _TLS
LOCALE_PATHS = [places.CATALOGUES]
USE_TZ = True
# Package with the formats of moments on the set-up pages.
FORMAT_MODULE_PATH = ["crawlctl.web.formats"]

STATIC_URL = "/static/"
STATICFILES_DIRS = [places.STATIC]
# Static files are served from their packages, so a clone needs no step that collects them.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# The lists and forms of django-unfold, in the frame and the colours of all pages (templates/admin/base_site.html).
UNFOLD = {
    "SITE_TITLE": "crawlctl set-up",
    "SITE_HEADER": "crawlctl",
    "SITE_URL": "/",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": f"{STATIC_URL}css/icon.svg"}],
    "STYLES": [f"{STATIC_URL}css/shell.css", f"{STATIC_URL}css/set_up.css"],
    "SCRIPTS": [f"{STATIC_URL}js/set_up.js"],
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "6px",
    "COLORS": {
        "primary": {
            "50": "oklch(98.4% .014 180.72)",
            "100": "oklch(95.3% .051 180.801)",
            "200": "oklch(91% .096 180.426)",
            "300": "oklch(85.5% .138 181.071)",
            "400": "oklch(77.7% .152 181.912)",
            "500": "oklch(70.4% .14 182.503)",
            "600": "oklch(51.1% .096 186.391)",
            "700": "oklch(43.7% .078 188.216)",
            "800": "oklch(38.6% .063 188.416)",
            "900": "oklch(27.7% .046 192.524)",
            "950": "oklch(20% .04 192.524)",
        },
        # The greys of `static/css/shell.css`, light and dark.
        "base": {
            "50": "#f6f7f8",
            "100": "#eef0f2",
            "200": "#e2e5e9",
            "300": "#cbd1d7",
            "400": "#7b8691",
            "500": "#5d6873",
            "600": "#48525c",
            "700": "#39424b",
            "800": "#2c333b",
            "900": "#1b2026",
            "950": "#14181c",
        },
    },
}

LOGGING_CONFIG = None
logs.configure(level=_given[table.LOG_LEVEL], as_json=_given[table.LOG_JSON])

# --- The API -----------------------------------------------------------------------------------

REST_KNOX = {"TOKEN_TTL": _given[table.TOKEN_LIFETIME]}
REST_FRAMEWORK = {
    # The first class names the login method: without it an anonymous request would be answered 403, not 401.
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "crawlctl.access.authentication.TokenAuthentication",
        "crawlctl.access.api_tokens.authentication.ApiTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["nodes.api.permission.NamedPermission"],
    "DEFAULT_PARSER_CLASSES": ["nodes.api.parsing.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "nodes.api.schema.Schema",
    "DEFAULT_METADATA_CLASS": "nodes.api.metadata.Metadata",
    "EXCEPTION_HANDLER": "jobs.api.errors.answer",
    "NON_FIELD_ERRORS_KEY": "request",
    "URL_FORMAT_OVERRIDE": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "crawlctl",
    "DESCRIPTION": "Control plane for incremental, polite crawls over many machines. All errors have the schema `Problem`.",
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "ClusterKindEnum": "nodes.models.ClusterRequest.Kind",
        "ClusterStateEnum": "nodes.models.ClusterRequest.State",
        "JobKindEnum": list(Kind),
        "PeriodEnum": list(Period),
        "DifferingDocumentsEnum": ["new", "gone", "changed", "worse", "better", "other"],
        "VerificationStateEnum": ["waiting", "running", "done", "refused", "ended early"],
        "BulkStateEnum": ["waiting", "running", "done", "ended early"],
    },
    # Served from its package: our pages load nothing from other hosts.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

# --- Coordination ------------------------------------------------------------------------------

CRAWLCTL_COORDINATION = _given[node_settings.COORDINATION]
CRAWLCTL_ZOOKEEPER = _given[node_settings.ZOOKEEPER]
CRAWLCTL_ZOOKEEPER_CREDENTIALS = _given[node_settings.ZOOKEEPER_CREDENTIALS]

# --- Metrics -----------------------------------------------------------------------------------

# Bearer token that grants access to /metrics.
CRAWLCTL_METRICS_TOKEN = _given[table.METRICS_TOKEN]
# File whose modification time is the time of the last backup.
CRAWLCTL_BACKUP_FILE = _given[backups.BACKUP_FILE]
# Age of the last backup above which the attention list has a line.
CRAWLCTL_BACKUP_MAX_AGE = _given[backups.BACKUP_MAX_AGE]
# Age of the last drill of a restore, and of the stored write-ahead log, above which the attention list has a line.
CRAWLCTL_DRILL_MAX_AGE = _given[backups.DRILL_MAX_AGE]
CRAWLCTL_BACKUP_LOG_MAX_AGE = _given[backups.BACKUP_LOG_MAX_AGE]
process.show(version=__version__, directory=VAR_DIR)

# --- Installed plugins -------------------------------------------------------------------------

CRAWLCTL_CONNECTORS = _given[table.CONNECTORS]
CRAWLCTL_OUTPUTS = _given[table.OUTPUTS]
CRAWLCTL_TRANSFORMATIONS = _given[table.TRANSFORMATIONS]
CRAWLCTL_AUTHORITIES = _given[authorities.KINDS]
CRAWLCTL_DISTRIBUTED_JOBS = _given[table.DISTRIBUTED_JOBS]
CRAWLCTL_TASKS = _given[tasks.KINDS]

# --- Background tasks --------------------------------------------------------------------------

# django-q2 executes one task at a time, and stores nothing (`nodes.tasks.cluster`). Its tasks have no time limit: it
# only warns if these two numbers are missing.
Q_CLUSTER = {
    "name": "crawlctl",
    "workers": 1,
    "queue_limit": 1,
    "scheduler": False,
    "save_limit": -1,
    "timeout": 1,
    "retry": 2,
}
