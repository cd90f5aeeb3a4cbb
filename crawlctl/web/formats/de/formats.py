"""Formats, under Django's names."""

from crawlctl.web.formats.en.formats import *  # noqa: F403 (Django reads the names of this module)
