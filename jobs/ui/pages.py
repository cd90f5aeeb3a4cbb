"""The decorator of every page of the crawl. It requires the permission to view jobs."""

from typing import Final

from nodes.web.pages import page_for

page: Final = page_for("jobs.view_job")
