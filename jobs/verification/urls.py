"""The addresses of the page of an output's verifications."""

from django.urls import path

from jobs.verification import pages

urlpatterns = [
    path("<int:output_id>/verification/", pages.verifications, name="output-verification"),
    path("<int:output_id>/verification/start/", pages.start, name="output-verification-start"),
]
