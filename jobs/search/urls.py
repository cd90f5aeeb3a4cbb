"""The address of the search page."""

from django.urls import path

from jobs.search import pages

urlpatterns = [path("", pages.search, name="search")]
