"""The addresses of the pages of exports."""

from django.urls import path

from jobs.exports import pages

urlpatterns = [
    path("", pages.exports, name="exports"),
    path("new/", pages.new, name="export-new"),
    path("<int:export_id>/file/", pages.file, name="export-file"),
    path("<int:export_id>/cancel/", pages.cancel, name="export-cancel"),
    path("<int:export_id>/delete/", pages.delete, name="export-delete"),
]
