"""The addresses of the pages of versions."""

from django.urls import path

from jobs.definitions.versions import pages

urlpatterns = [
    path("", pages.versions, name="versions"),
    path("<int:version_id>/", pages.version, name="version"),
    path("<int:version_id>/revert/", pages.revert, name="version-revert"),
]
