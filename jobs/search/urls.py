"""The addresses of the search page and of archived contents."""

from django.urls import path

import jobs.ui.document_key  # noqa: F401 (registers the converter)
from jobs.search import archive_pages, pages, version_pages

urlpatterns = [
    path("search/", pages.search, name="search"),
    path("archive/<int:record_id>/", archive_pages.record, name="archive-record"),
    path(
        "documents/<int:job_id>/<document_key:document_hash>/versions/",
        version_pages.versions,
        name="document-versions",
    ),
    path("archive/<int:record_id>/body/", archive_pages.body, name="archive-body"),
]
