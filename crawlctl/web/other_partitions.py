"""
Pages and the API of another partition, through the control partition: `/partition/NAME/` before an address.

The view runs as in that partition, in a thread whose connection leads to its database. The control partition checks the
login, and the permissions of the user in the control partition apply. Addresses in the answer have the same prefix, so
all ids in them are ids of that partition. A page of all partitions has no such address: the request is redirected to
the page of the control partition.
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import Resolver404, ResolverMatch, resolve, reverse, set_script_prefix
from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.views import APIView

from crawlctl.web.navigation import find_place, is_of_one_partition
from jobs.partitions import this_partition
from jobs.partitions.merged import PartitionAway, change_in, numbers_of, read_in
from nodes.api import idempotency
from nodes.errors import Unknown
from nodes.web.translated_words import missing

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Longest time in which another partition makes a file (seconds).
_FILE_WITHIN: Final = 60.0
# Bytes of such a file that are kept in memory.
_IN_MEMORY: Final = 1 << 20
_CHUNK: Final = 1 << 16
# Forms in the frame of each page, which belong to the control partition.
_OF_FRAME: Final = frozenset({"language", "logout"})
# Prefixes of names of API operations. Each partition has its own rows for these operations.
_OPERATIONS: Final = (
    *("api:archive-file", "api:archive-record", "api:archive-verification", "api:archived-task", "api:cluster-history"),
    *("api:cluster-request", "api:document-version", "api:group-", "api:host-", "api:node", "api:task"),
    *("api:trap-suspect", "api:verification"),
)


def page_in(request: HttpRequest, partition: str, path: str) -> HttpResponseBase:
    """Show a page of another partition, or perform an action there."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    match = _match(path)
    try:
        if is_of_one_partition(match.view_name):
            return _answer(request, partition, match)
        if request.method in _SAFE:
            return _redirect_to_own_page(request, partition, match)
        if match.view_name in _OF_FRAME:
            return HttpResponseRedirect(f"/{path}", status=307)
    except PartitionAway as away:
        return render(request, "ui/partition_away.html", {"name": partition, "why": str(away)}, status=503)
    except Unknown as unknown:
        raise Http404(missing(unknown)) from None
    raise Http404(_("Do this on the page of the control partition."))


class ApiInView(APIView):
    """
    Operations of the API on rows of another partition. Ids in requests and answers are those of that partition.

    The operation checks the permission: the user and the scope of the token are known from the request.
    """

    schema = None
    permission_classes = (IsAuthenticated,)

    def get(self, request: Request, partition: str, path: str) -> HttpResponseBase:
        match = _match(f"api/v1/{path}")
        if not match.view_name.startswith(_OPERATIONS):
            raise Unknown("operation", path, f"Partition {partition} has no operation {path} here. Use /api/v1/{path}.")
        if idempotency.HEADER in request.headers:
            # Answers that are kept for an Idempotency-Key belong to users of the control partition.
            sentence = "An operation of another partition takes no Idempotency-Key."
            raise serializers.ValidationError({idempotency.HEADER: [sentence]})
        sent: Any = request._request  # noqa: SLF001 (DRF offers no other access)
        # As `force_authenticate` of DRF does: the view reads no user or token in the other database.
        sent._force_auth_user = request.user  # noqa: SLF001
        sent._force_auth_token = request.auth  # noqa: SLF001
        return _answer(sent, partition, match)

    post = patch = delete = get


def _match(path: str) -> ResolverMatch:
    try:
        return resolve(f"/{path}")
    except Resolver404:
        raise Http404(_("This page does not exist.")) from None


def _answer(request: HttpRequest, partition: str, match: ResolverMatch) -> HttpResponseBase:
    """
    Let the view answer in the database of the partition.

    Raises:
        Unknown, PartitionAway: as `read_in`.
    """
    # Read the session and the permissions of the user now, because they are in this database.
    user: Any = request.user
    user.get_all_permissions()
    if hasattr(request, "session"):
        request.session.get("")
    before, path = request.resolver_match, request.path_info
    request.resolver_match, request.path_info = (
        match,
        this_partition.path_in("") + path.removeprefix(this_partition.path_in(partition)),
    )

    def answer() -> HttpResponseBase:
        set_script_prefix(this_partition.path_in(partition))
        response = match.func(request, *match.args, **match.kwargs)
        if hasattr(response, "render") and not response.is_rendered:
            response.render()
        return _read_whole_file(response) if isinstance(response, StreamingHttpResponse) else response

    try:
        if request.method not in _SAFE:
            return change_in(partition, answer)
        is_file = path.endswith("/file/")
        return read_in(partition, answer, within=_FILE_WITHIN) if is_file else read_in(partition, answer)
    finally:
        request.resolver_match, request.path_info = before, path


def _read_whole_file(response: StreamingHttpResponse) -> StreamingHttpResponse:
    """
    Read the whole file now, and return an answer that sends it later: the connection to its database ends with the
    view.
    """
    file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 (it is closed at its end)

    async def write() -> None:
        async for chunk in response:
            file.write(chunk)

    # Read each part in this thread, because the database connection belongs to it.
    async_to_sync(write)()
    file.seek(0)

    async def chunks() -> AsyncIterator[bytes]:
        with file:
            while chunk := await sync_to_async(file.read)(_CHUNK):
                yield chunk

    response.streaming_content = chunks()
    return response


def _redirect_to_own_page(request: HttpRequest, partition: str, match: ResolverMatch) -> HttpResponse:
    """
    Redirect to the same page of the control partition. A job has another id there. For objects other than jobs,
    redirect to their list.
    """
    query = request.GET.copy()
    asked = {"job": str(match.kwargs.get("job_id") or query.get("job", ""))}
    number = _own_number_of(partition, asked["job"])
    if asked["job"] and number is None:
        raise Http404(_("This job does not exist here."))
    if "job" in query:
        query["job"] = str(number)
    others = set(match.kwargs) - {"job_id", "document_hash", "path"}
    if others or match.view_name.startswith("admin:"):
        found = find_place(match.view_name)
        return redirect(_own_address(found[1].view if found else "overview", {}, QueryDict()))
    kwargs = {**match.kwargs, "job_id": number} if "job_id" in match.kwargs else match.kwargs
    return redirect(_own_address(match.view_name, kwargs, query))


def _own_number_of(partition: str, job: str) -> int | None:
    if not job.isdecimal() or len(job) > 18:
        return None
    asked: Callable[[], Mapping[int, int]] = lambda: numbers_of({int(job)})  # noqa: E731
    return read_in(partition, asked).get(int(job))


def _own_address(view: str, kwargs: Mapping[str, Any], query: QueryDict) -> str:
    address = reverse(view, kwargs=dict(kwargs))
    return f"{address}?{query.urlencode()}" if query else address
