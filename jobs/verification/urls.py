"""The addresses of the page of an output's verifications."""

from django.urls import path

from jobs.verification import pages

urlpatterns = [
    path("", pages.verifications, name="output-verification"),
    path("start/", pages.start, name="output-verification-start"),
]
