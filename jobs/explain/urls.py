"""The addresses of the page that explains an address."""

from django.urls import path

from jobs.explain import pages

urlpatterns = [
    path("", pages.explained, name="explain"),
]
