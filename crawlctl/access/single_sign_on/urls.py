"""The addresses of logins without a password."""

from django.urls import path

from crawlctl.access.single_sign_on import pages

urlpatterns = [
    path("provider/", pages.begin, name="login-provider"),
    # The redirect URI to register at the provider.
    path("provider/answer/", pages.answer, name="login-provider-answer"),
    path("provider/end/", pages.end, name="login-provider-end"),
    path("link/", pages.by_link, name="login-link"),
]
