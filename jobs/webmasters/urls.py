"""The addresses of the pages for webmasters."""

from django.urls import path

from jobs.webmasters import pages

urlpatterns = [
    path("", pages.index, name="webmasters"),
    path("<str:host>/", pages.host, name="webmaster"),
    path("<str:host>/limit/", pages.ask, name="webmaster-ask"),
    path("<str:host>/proof/", pages.prove, name="webmaster-prove"),
]
