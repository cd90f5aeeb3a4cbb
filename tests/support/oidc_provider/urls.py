"""The addresses of the provider."""

import json

from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from tests.support.oidc_provider import behaviour


def behave(request: HttpRequest) -> HttpResponse:
    for name, value in json.loads(request.body).items():
        setattr(behaviour.present, name, value)
    return HttpResponse(status=204)


urlpatterns = [path("o/", include("oauth2_provider.urls")), path("behaviour/", behave)]
