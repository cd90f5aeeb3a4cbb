"""The addresses of the page of retention."""

from django.urls import path

from jobs.retention import pages

urlpatterns = [
    path("", pages.retention, name="retention"),
    path("<str:subject>/clean/", pages.clean, name="retention-clean"),
]
