"""The addresses of the page of the verifications of archives."""

from django.urls import path

from jobs.verification.archives import pages

urlpatterns = [
    path("archive/verification/", pages.verifications, name="archive-verification"),
    path("archive/verification/start/", pages.start, name="archive-verification-start"),
]
