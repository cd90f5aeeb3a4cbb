"""The settings of the provider."""

from jwcrypto.jwk import JWK

SECRET_KEY = "of the provider of tests"
ALLOWED_HOSTS = ["127.0.0.1"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
STATIC_URL = "/static/"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider"]
# Tables are made as they are now, without the history of migrations.
MIGRATION_MODULES = {"auth": None, "contenttypes": None, "oauth2_provider": None}
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
# Cookies of a host are sent to all its ports, and crawlctl's cookies have the usual names.
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "provider_session", "provider_csrf"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "tests.support.oidc_provider.behaviour.UserOfCookie",
]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]
ROOT_URLCONF = "tests.support.oidc_provider.urls"
OAUTH2_PROVIDER = {
    "OIDC_ENABLED": True,
    "OIDC_RSA_PRIVATE_KEY": JWK.generate(kty="RSA", size=2048).export_to_pem(private_key=True, password=None).decode(),
    "OIDC_RP_INITIATED_LOGOUT_ENABLED": True,
    "OAUTH2_VALIDATOR_CLASS": "tests.support.oidc_provider.behaviour.Validator",
    "PKCE_REQUIRED": True,
    "SCOPES": {"openid": "identity", "profile": "name", "email": "address"},
}
