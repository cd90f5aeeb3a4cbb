"""Lines of the attention list: authorities and mappers that did not answer their last questions."""

import datetime as dt
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import SHOWN, AttentionLine
from jobs.authorities.models import AuthorityConnection, MappingConnection

_KIND: Final = "authority_silent"


def silent_authorities(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each connection that did not answer its last questions."""
    models = (AuthorityConnection, MappingConnection)
    silent = [model.objects.filter(silent_since__isnull=False).order_by("name") for model in models]
    found = [(rows.model, row) for rows in silent for row in rows[: SHOWN + 1]]
    lines = [
        AttentionLine(
            kind=_KIND,
            key=f"{model._meta.model_name}-{row.pk}",  # noqa: SLF001 (Django's own word)
            subject=row.name,
            sentence=_("%(name)s did not answer its last questions: %(error)s Check it on the page of authorities.")
            % {"name": row.name, "error": row.last_error},
            since=row.silent_since,
            link=reverse("authorities"),
        )
        for model, row in found[:SHOWN]
    ]
    if len(found) > SHOWN:
        more = sum(rows.count() for rows in silent) - SHOWN
        lines.append(
            AttentionLine(
                kind=_KIND,
                key="more",
                subject=_("Authorities"),
                sentence=_("%(n)d more authorities and mappings did not answer their last questions.") % {"n": more},
                since=None,
                link=reverse("authorities"),
            )
        )
    return lines
