"""The addresses of the page of operations on many documents."""

from django.urls import path

from jobs.bulk import pages

urlpatterns = [
    path("", pages.operations, name="job-bulk"),
    path("start/", pages.start, name="job-bulk-start"),
    path("<int:operation_id>/cancel/", pages.cancel, name="job-bulk-cancel"),
]
