"""The addresses of the page that explains an address."""

from django.urls import path

from jobs.explain import pages

urlpatterns = [
    path("", pages.explained, name="explain"),
    path("fetch-again/", pages.fetch_again, name="explain-fetch-again"),
    path("forget/", pages.forget, name="explain-forget"),
    path("add-seed/", pages.add_seed, name="explain-add-seed"),
]
