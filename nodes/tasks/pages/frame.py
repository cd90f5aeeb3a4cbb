"""The parts of all pages of background tasks: their permission, their tabs, and the choice of a kind."""

from collections.abc import Sequence
from typing import Final

from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from nodes.tasks import kinds
from nodes.tasks.kinds import Kind
from nodes.web.pages import page_for
from nodes.web.screens import Record

page: Final = page_for("tasks.view_task")
MAY_RUN: Final = "tasks.run_task"
MAY_MAKE_TEMPLATES: Final = "tasks.change_tasktemplate"
MAY_REMOVE_TEMPLATES: Final = "tasks.delete_tasktemplate"
_TABS: Final = {
    "tasks": gettext_lazy("Overview"),
    "tasks-scheduled": gettext_lazy("Scheduled"),
    "tasks-archived": gettext_lazy("Archive"),
    "tasks-templates": gettext_lazy("Templates"),
    "tasks-workers": gettext_lazy("Workers"),
}


def tabs(shown: str) -> list[Record]:
    """Return the links to the lists. `shown` is the list of this page."""
    return [{"address": reverse(name), "label": label, "is_shown": name == shown} for name, label in _TABS.items()]


def offered_kinds() -> Sequence[Kind]:
    """Return the kinds that users may choose, by name."""
    return sorted(kinds.offered(), key=lambda kind: kind.name)


def chosen_kind(request: HttpRequest) -> Kind | None:
    """
    Return the kind that the address names; None without one.

    Raises:
        Http404: there is no such kind.
    """
    name = request.GET.get("kind", "")
    if not name:
        return None
    for kind in offered_kinds():
        if kind.name == name:
            return kind
    raise Http404(_("There is no kind of task %(name)s. Choose another kind.") % {"name": name})
