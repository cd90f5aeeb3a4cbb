"""Lines of the attention list: authorities and mappers that did not answer their last questions."""

import datetime as dt
from typing import Any, Final

from django.db.models import Value
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import SHOWN, AttentionLine
from jobs.authorities.models import AuthorityConnection, MappingConnection

_KIND: Final = "authority_silent"


def silent_authorities(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each connection that did not answer its last questions."""
    # One statement for both kinds of connections, because an open overview runs it once a second.
    silent = _silent(AuthorityConnection).union(_silent(MappingConnection), all=True).order_by("name", "of")
    found = list(silent[: SHOWN + 1])
    lines = [
        AttentionLine(
            kind=_KIND,
            key=f"{row['of']}-{row['pk']}",
            subject=row["name"],
            sentence=_("%(name)s did not answer its last questions: %(error)s Check it on the page of authorities.")
            % {"name": row["name"], "error": row["last_error"]},
            since=row["silent_since"],
            link=reverse("authorities"),
        )
        for row in found[:SHOWN]
    ]
    if len(found) > SHOWN:
        lines.append(
            AttentionLine(
                kind=_KIND,
                key="more",
                subject=_("Authorities"),
                sentence=_("%(n)d more authorities and mappings did not answer their last questions.")
                % {"n": silent.count() - SHOWN},
                since=None,
                link=reverse("authorities"),
            )
        )
    return lines


def _silent(model: type[AuthorityConnection] | type[MappingConnection]) -> Any:  # noqa: ANN401 (rows of both models)
    noun = "authority" if model is AuthorityConnection else "mapping"
    rows = model._default_manager.filter(silent_since__isnull=False).order_by()  # noqa: SLF001 (Django's own word)
    return rows.annotate(of=Value(noun)).values("of", "pk", "name", "silent_since", "last_error")
