"""The button of a set-up page that leads to the versions of its object."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action

from nodes.admin.confirmation import row_number


class WithVersions:
    """
    The part of a set-up page with the button “Versions”. The page sets `definition`, and has `versions` among its
    actions.
    """

    definition: str

    @action(description=_("Versions"), url_path="versions", permissions=("view",))  # type: ignore[untyped-decorator]
    def versions(self, _request: HttpRequest, object_id: Any) -> HttpResponseBase:  # noqa: ANN401 (a number, or its text)
        """Redirect to the page of the versions of this object."""
        query: dict[str, str | int] = {"definition": self.definition, "object": row_number(str(object_id))}
        return redirect(f"{reverse('versions')}?{urlencode(query)}")
