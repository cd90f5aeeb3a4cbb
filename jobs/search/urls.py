"""The addresses of the search page and of archived contents."""

from django.urls import path

from jobs.search import archive_pages, pages

urlpatterns = [
    path("search/", pages.search, name="search"),
    path("archive/<int:record_id>/", archive_pages.record, name="archive-record"),
    path("archive/<int:record_id>/body/", archive_pages.body, name="archive-body"),
]
