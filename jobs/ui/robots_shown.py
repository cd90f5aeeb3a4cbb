"""The texts about the robots.txt of a host: its age, its rules, its changes, and the sitemaps that it names."""

import datetime as dt
from collections.abc import Sequence

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.queries.hosts.robots import Change, RobotsOfOrigin
from jobs.queries.hosts.sitemaps import Sitemap, SitemapDocument
from jobs.verdicts.results import class_of
from jobs.words.codes import explain_code
from nodes.web import formats
from nodes.web.screens import Record


def robots_shown(found: Sequence[RobotsOfOrigin], *, now: dt.datetime) -> list[Record]:
    return [
        {
            "address": f"{one.origin}/robots.txt",
            "read": _("Read %(age)s (%(moment)s UTC).")
            % {"age": formats.age(one.read_at, now=now), "moment": formats.moment(one.read_at, now=now)},
            "has_rules": one.text.has_rules,
            "text": "\n".join(one.text.lines),
            "is_cut": one.text.is_cut,
            "changes": [_change(change, now=now) for change in one.changes],
        }
        for one in found
    ]


def sitemaps_shown(found: Sequence[Sitemap], *, now: dt.datetime) -> list[Record]:
    """Return a row for each document that is a sitemap, and for each sitemap that is no document of a job."""
    rows: list[Record] = []
    for sitemap in found:
        rows += [{"address": sitemap.address, **_document(one, now=now)} for one in sitemap.documents]
        if not sitemap.documents:
            rows.append({"address": sitemap.address})
    return rows


def _document(one: SitemapDocument, *, now: dt.datetime) -> Record:
    return {
        "job": one.job_name,
        "document": reverse("document", args=[one.job_id, one.hash]),
        "read": formats.moment(one.fetched_at, now=now) if one.fetched_at else "",
        "code": one.code,
        "tone": str(class_of(one.code)),
        "meaning": explain_code(one.code),
    }


def _change(change: Change, *, now: dt.datetime) -> Record:
    return {
        "title": _("Changed between %(before)s UTC and %(after)s UTC")
        % {
            "before": formats.moment(change.last_read_at, now=now),
            "after": formats.moment(change.replaced_at, now=now),
        },
        "difference": "\n".join(change.difference),
    }
