"""The button “Rehearse” of a set-up form. It shows the effects of the form, and stores nothing."""

from typing import Any, Final

from django.db.models import Model
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_lazy as _

# Name that the button sends. A form with this name is checked and shown again, and never stored.
REHEARSE: Final = "_rehearse"
_BUTTON: Final = {"action_name": REHEARSE, "description": _("Rehearse"), "attrs": {}, "icon": ""}


class WithRehearsal:
    """The part of a set-up page that rehearses the change which its form would make."""

    def may_rehearse(self, request: HttpRequest, obj: Model | None) -> bool:
        """True if the user may store what the form shows."""
        raise NotImplementedError

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Model | None = None, **kwargs: Any
    ) -> HttpResponseBase:
        if self.may_rehearse(request, obj):
            context = {**context, "actions_submit_line": [_BUTTON]}
        page: Any = super()
        response: HttpResponseBase = page.render_change_form(request, context, *args, obj=obj, **kwargs)
        return response
