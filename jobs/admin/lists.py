"""The base class of set-up pages whose verbs store the objects and write the journal."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Model
from django.http import HttpRequest

from nodes.admin.lists import BoundedList


class JournaledList(BoundedList):
    """A list of objects whose verbs store each object with its inlines, and write the journal themselves."""

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:  # noqa: ANN401, FBT001 (Django's)
        """Do nothing yet: the object is stored together with its inlines (`save_related`)."""

    def construct_change_message(
        self,
        request: HttpRequest,
        form: Any,  # noqa: ANN401 (each list's own)
        formsets: Sequence[Any],
        add: bool = False,  # noqa: FBT001, FBT002 (Django's)
    ) -> str:
        """
        Return a fixed word. The object's own journal has the changes, so the log of Django's admin needs no details.
        """
        return "Added." if add else "Changed."
