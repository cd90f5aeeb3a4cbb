"""
The base of all views: ETags, preconditions and idempotency keys.

A resource that can be changed has an `ETag`. A request with `If-Match` succeeds only if it names the current ETag. The
row stays locked from the comparison to the change. If two clients read the same resource and both change it, the second
gets 412. For some views, another process makes the change (`is_done_elsewhere`). Such a request is compared when it
arrives, and the process that makes the change compares the resource with `expected` again.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from nodes.api import idempotency
from nodes.api.etags import accepts_any, changeable_part, check_if_match, part_of, tag_of
from nodes.api.strict import Nothing, read_query
from nodes.models import KeptAnswer

_IF_MATCH: Final = "If-Match"


class ContractView(APIView):
    """The base of all views of the API."""

    # Serializer whose writable fields the ETag covers; None if nothing can be changed here.
    tagged_by: type[serializers.Serializer[Any]] | None = None
    # Fields that the ETag covers if only actions change the resource. The view then has no `tagged_by`.
    tagged_fields: Sequence[str] = ()

    # Names of the actions that read query parameters. All other actions of GET refuse parameters. A view without
    # actions reads its query itself.
    queried: Collection[str] = ("list",)

    # False if answers hold a secret. Such answers are not stored, so their requests take no Idempotency-Key.
    keeps_answers = True

    # True if another process makes the change. The view then commits its request before it answers, and the ETag is
    # compared in an earlier, separate transaction.
    is_done_elsewhere = False
    # Values of the tagged fields that If-Match requires. None if any values will do.
    expected: Mapping[str, Any] | None = None
    _claimed: KeptAnswer | None = None

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        is_conditional = _IF_MATCH in request.headers or idempotency.HEADER in request.headers
        if request.method in SAFE_METHODS or not is_conditional or self.is_done_elsewhere:
            return super().dispatch(request, *args, **kwargs)
        with transaction.atomic():
            response = super().dispatch(request, *args, **kwargs)
            if response.status_code >= status.HTTP_400_BAD_REQUEST:
                transaction.set_rollback(True)
        return response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in SAFE_METHODS:
            action = getattr(self, "action", None)
            if action is not None and request.method != "OPTIONS" and action not in self.queried:
                read_query(Nothing, request)
            return
        # A repeated request gets its stored answer again, even if the resource has changed since.
        if idempotency.HEADER in request.headers:
            if not self.keeps_answers:
                raise idempotency.refuse_key()
            self._claimed = idempotency.claim(request)
        header = request.headers.get(_IF_MATCH)
        if header is not None:
            with transaction.atomic():
                check_if_match(header, self.lock_and_read_tag())
            if accepts_any(header):
                self.expected = None

    def handle_exception(self, exc: Exception) -> Response:
        return exc.response if isinstance(exc, idempotency.AnsweredBefore) else super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        finished = super().finalize_response(request, response, *args, **kwargs)
        shown = getattr(finished, "data", None)
        if status.is_success(finished.status_code) and isinstance(shown, Mapping):
            tag = self.tag_of_shown(shown)
            # A stored answer has the ETag of its first request already.
            if tag is not None and "ETag" not in finished.headers:
                finished.headers["ETag"] = tag
        if self._claimed is not None:
            if status.is_success(finished.status_code):
                idempotency.keep(self._claimed, finished)
            elif self.is_done_elsewhere:
                self._claimed.delete()
        return finished

    def tag_of_shown(self, shown: Mapping[str, Any]) -> str | None:
        """Return the ETag of an answer that shows the resource itself, else None."""
        if self.tagged_fields:
            part = part_of(shown, self.tagged_fields)
        else:
            part = None if self.tagged_by is None else changeable_part(self.tagged_by(), shown)
        return None if part is None else tag_of(part)

    def lock_and_read_tag(self) -> str | None:
        """
        Return the current ETag of the resource that the request names. Its row stays locked until the answer is made.

        A view whose change is made elsewhere also sets `expected`.
        """
        if self.tagged_by is None or not isinstance(self, GenericAPIView) or "pk" not in self.kwargs:
            return None
        rows = self.get_queryset().select_for_update(no_key=True, of=("self",))
        thing = get_object_or_404(rows, pk=self.kwargs["pk"])
        return self.tag_of_shown(self.tagged_by(thing, context=self.get_serializer_context()).data)


def created(shown: object, *, at: str, request: Request) -> Response:
    """Return the answer to a request that created a resource. The resource can be read at the path `at`."""
    address = request.build_absolute_uri(at)
    return Response(shown, status=status.HTTP_201_CREATED, headers={"Location": address})
