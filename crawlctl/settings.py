"""
Settings, read once from the environment, each with its unit and its reason.

Safe outside DEBUG: no default secret key there, no default password anywhere. Without any setting
crawlctl serves one machine: an embedded PostgreSQL under `var/` and a key of its own beside it.
"""

import os
from pathlib import Path

from django.urls import reverse_lazy

from crawlctl import env, logs
from crawlctl.database import database_from_url
from crawlctl.secret import key_of_this_machine

BASE_DIR = Path(__file__).resolve().parent.parent

# Everything that crawlctl writes on this machine: the embedded database, its key, logs. Tests have a
# server of their own, so that no test can touch what somebody crawled.
VAR_DIR = Path(
    env.text(
        "CRAWLCTL_VAR", default=str(BASE_DIR / "var" / "test" if "PYTEST_VERSION" in os.environ else BASE_DIR / "var")
    )
)

DEBUG = env.flag("CRAWLCTL_DEBUG", default=False)

# Signs sessions and tokens. Several machines that share a database must share it.
SECRET_KEY = env.text("CRAWLCTL_SECRET_KEY", default="") or key_of_this_machine(VAR_DIR)

# Host names under which the UI and the API answer; the loopback names always do.
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", *env.text("CRAWLCTL_ALLOWED_HOSTS", default="").split()]
CSRF_TRUSTED_ORIGINS = env.text("CRAWLCTL_TRUSTED_ORIGINS", default="").split()

# Behind a TLS proxy: cookies travel only over https, and browsers are told to insist on it.
_TLS = env.flag("CRAWLCTL_TLS", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = _TLS
SECURE_HSTS_SECONDS = 31_536_000 if _TLS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _TLS else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    # First, since channels brings a command `runworker` of its own.
    "crawlctl.apps.CrawlctlConfig",
    "crawlctl.demo.apps.DemoConfig",
    "jobs.apps.JobsConfig",
    "nodes.apps.NodesConfig",
    "unfold",
    # Without its search for admin modules: our site names what it shows, and daemons show nothing.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "channels",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "knox",
    "rest_framework",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "crawlctl.security.ContentSecurityPolicy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "crawlctl.urls"
ASGI_APPLICATION = "crawlctl.asgi.application"
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
            ],
        },
    },
]

# Without DATABASE_URL an embedded PostgreSQL runs below VAR_DIR as long as somebody uses it.
DATABASES = {"default": database_from_url(env.text("DATABASE_URL", default=""), var_dir=VAR_DIR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
AUTHENTICATION_BACKENDS = ["crawlctl.logins.GuardedBackend"]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served from the packages themselves: no collecting step between a clone and a page.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# The set-up pages, in the colour of our own.
UNFOLD = {
    "SITE_TITLE": "crawlctl set-up",
    "SITE_HEADER": "crawlctl",
    "SITE_SUBHEADER": "Set-up",
    "SITE_URL": "/",
    "SITE_SYMBOL": "hub",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": f"{STATIC_URL}css/icon.svg"}],
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
    },
    "SIDEBAR": {
        "show_search": False,
        "show_all_applications": False,
        "navigation": [
            {
                "title": "Watch",
                "items": [
                    {"title": "Overview", "icon": "monitoring", "link": reverse_lazy("overview"), "active": False},
                    {"title": "Documents", "icon": "description", "link": reverse_lazy("documents")},
                    {"title": "Nodes", "icon": "dns", "link": reverse_lazy("nodes")},
                    {"title": "Search", "icon": "search", "link": reverse_lazy("search")},
                ],
            },
            {
                "title": "Set-up",
                "items": [
                    {"title": "Jobs", "icon": "work", "link": reverse_lazy("admin:jobs_job_changelist")},
                    {
                        "title": "Throttle policies",
                        "icon": "speed",
                        "link": reverse_lazy("admin:jobs_throttlepolicy_changelist"),
                    },
                    {
                        "title": "Repositories",
                        "icon": "cloud_download",
                        "link": reverse_lazy("admin:jobs_repositoryconnection_changelist"),
                    },
                    {
                        "title": "Outputs",
                        "icon": "output",
                        "link": reverse_lazy("admin:jobs_outputconnection_changelist"),
                    },
                    {
                        "title": "Users",
                        "icon": "group",
                        "link": reverse_lazy("admin:auth_user_changelist"),
                        "permission": "crawlctl.adminsite.may_see_users",
                    },
                ],
            },
        ],
    },
}

LOGGING_CONFIG = None
logs.configure(
    level=env.text("CRAWLCTL_LOG_LEVEL", default="INFO"), as_json=env.flag("CRAWLCTL_LOG_JSON", default=False)
)

# --- The API -----------------------------------------------------------------------------------

# A token that leaks is worth something only for so long; who needs one longer asks for another.
REST_KNOX = {"TOKEN_TTL": env.seconds("CRAWLCTL_TOKEN_LIFETIME", default=36_000, least=60)}
REST_FRAMEWORK = {
    # The first says how to log in: without it a request that did not would be answered 403, not 401.
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "crawlctl.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["nodes.api.permission.NamedPermission"],
    "DEFAULT_PARSER_CLASSES": ["nodes.api.parsing.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "nodes.api.schema.Schema",
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "jobs.api.errors.answer",
    "NON_FIELD_ERRORS_KEY": "request",
    "URL_FORMAT_OVERRIDE": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "crawlctl",
    "DESCRIPTION": "Control of incremental, polite crawls over many machines. Errors have one shape: `Problem`.",
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "COMPONENT_SPLIT_REQUEST": True,
    # Served from its package: a page of ours loads nothing from elsewhere.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

# --- The web server ----------------------------------------------------------------------------

# The first port that it tries; a taken one gives the next.
CRAWLCTL_PORT = env.integer("CRAWLCTL_PORT", default=8000, least=1, most=65_535)
# The password of the user `admin`, whom `run` and `demo` make at their first start. Without it, one is
# generated and shown then.
CRAWLCTL_ADMIN_PASSWORD = env.text("CRAWLCTL_ADMIN_PASSWORD", default="")

# --- The cluster -------------------------------------------------------------------------------

# How often a node says that it is alive, and the silence after which its work is given away.
# Five missed beats in a row: one slow garbage collection must not move a thousand documents.
CRAWLCTL_HEARTBEAT_INTERVAL = env.seconds("CRAWLCTL_HEARTBEAT_INTERVAL", default=2)
CRAWLCTL_NODE_TIMEOUT = env.seconds("CRAWLCTL_NODE_TIMEOUT", default=10)
# How long a node tries to reach its database before it exits and leaves the rest to its supervisor.
CRAWLCTL_NODE_GIVE_UP = env.seconds("CRAWLCTL_NODE_GIVE_UP", default=300)
# How long a stopping worker waits for the requests that it has sent.
CRAWLCTL_DRAIN_TIMEOUT = env.seconds("CRAWLCTL_DRAIN_TIMEOUT", default=10)

# --- The queue ---------------------------------------------------------------------------------

# Claimed and not yet flushed: what is fetched again at most when a worker is killed.
CRAWLCTL_CLAIMED_PER_WORKER = env.integer("CRAWLCTL_CLAIMED_PER_WORKER", default=256, least=1)
# Documents of a kind that a worker takes at once; 0 leaves the kind to other workers. Of what is read it has no more
# than it may have claimed. Whether it tells outputs of the ends of runs.
CRAWLCTL_PROCESSED_AT_ONCE = env.integer("CRAWLCTL_PROCESSED_AT_ONCE", default=256)
CRAWLCTL_EXPIRED_AT_ONCE = env.integer("CRAWLCTL_EXPIRED_AT_ONCE", default=256)
CRAWLCTL_CLEANED_AT_ONCE = env.integer("CRAWLCTL_CLEANED_AT_ONCE", default=256)
CRAWLCTL_DELETED_AT_ONCE = env.integer("CRAWLCTL_DELETED_AT_ONCE", default=256)
CRAWLCTL_TELLS_OUTPUTS = env.flag("CRAWLCTL_TELLS_OUTPUTS", default=True)
# Results wait at most so long before they are written.
CRAWLCTL_FLUSH_AFTER = env.seconds("CRAWLCTL_FLUSH_AFTER", default=0.2)

# --- The history -------------------------------------------------------------------------------

# Days for which the history is kept; 0 writes none. A hundred bytes and more for each request.
CRAWLCTL_KEEP_HISTORY = env.integer("CRAWLCTL_KEEP_HISTORY", default=30, most=3_650)

# --- The web -----------------------------------------------------------------------------------

# How the crawler names itself where a job says nothing else; robots.txt is read for its first word. Name a
# page or an address of yours in it: a site that is troubled must be able to reach you.
CRAWLCTL_USER_AGENT = env.text("CRAWLCTL_USER_AGENT", default="crawlctl/0.1")

# Repository connectors that are not installed as entry points: `package.module:OBJECT`, separated by commas.
CRAWLCTL_CONNECTORS = env.words("CRAWLCTL_CONNECTORS")
# Outputs likewise.
CRAWLCTL_OUTPUTS = env.words("CRAWLCTL_OUTPUTS")
