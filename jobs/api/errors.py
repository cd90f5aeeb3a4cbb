"""
All errors of the API have the same form: a problem document of RFC 9457.

`code` is stable and for programs, and `detail` is a sentence. `fields` has the errors by field, and `allowed` (409
only) the actions of the job that are possible now. An answer with an error means that nothing was changed.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, NoReturn

import psycopg.errors
from django.core import exceptions as django_errors
from django.db import IntegrityError, OperationalError
from django.db.models import ProtectedError, RestrictedError
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions, status
from rest_framework.permissions import SAFE_METHODS
from rest_framework.response import Response
from rest_framework.views import APIView, set_rollback

from jobs.state.transitions import TransitionRefused
from jobs.verbs.hosts import HostsUnknown
from nodes.api.etags import PreconditionFailed
from nodes.coordination.port import CoordinationError
from nodes.database.conflicts import lost_a_conflict
from nodes.database.outage import is_outage, outage
from nodes.errors import Invalid, NameTaken, NotDone

logger = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
# First sentence of the message about invalid fields.
_UNCHANGED: Final = "Nothing was changed. "
# HTTP status by the code of a problem. Each other code means a conflict with the present state (409).
_STATUS: Final = {
    "not_found": status.HTTP_404_NOT_FOUND,
    "permission_denied": status.HTTP_403_FORBIDDEN,
    "precondition_failed": status.HTTP_412_PRECONDITION_FAILED,
    "no_main": status.HTTP_503_SERVICE_UNAVAILABLE,
    "too_slow": status.HTTP_503_SERVICE_UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why a request was not executed."""

    status: int
    code: str
    detail: str
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    allowed: Sequence[str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_response(self) -> Response:
        return Response(self.body, status=self.status, headers=dict(self.headers), content_type=MEDIA_TYPE)

    def as_json(self) -> JsonResponse:
        """Return the problem as a response for an error that occurs before a view is chosen."""
        return JsonResponse(self.body, status=self.status, headers=dict(self.headers), content_type=MEDIA_TYPE)

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.fields:
            body["fields"] = self.fields
        if self.allowed is not None:
            body["allowed"] = self.allowed
        return body


def answer(error: Exception, context: Mapping[str, Any]) -> Response:
    """Return the response to an error. This is the exception handler of Django REST framework."""
    set_rollback()
    problem = _problem_of(error)
    if problem is None:
        logger.error("unexpected error in %s", type(context.get("view")).__name__, exc_info=error)
        problem = Problem(
            status.HTTP_500_INTERNAL_SERVER_ERROR, "internal_error", "Internal error. See the server's log for details."
        )
    request = context.get("request")
    if request is not None and request.method in SAFE_METHODS:
        # A read request never changes anything, so the sentence "Nothing was changed." is left out.
        problem = replace(problem, detail=problem.detail.removeprefix(_UNCHANGED))
    return problem.as_response()


def sentence(error: Exception | str) -> str:
    """Return the message of an error as a sentence for people. It may start in lower case, as Python's messages do."""
    said = str(error)
    return said[:1].upper() + said[1:].removesuffix(".") + "."


class NothingHere(APIView):
    """The answer for each unknown address below the API's root: 404 in the shape of all errors."""

    authentication_classes = ()
    permission_classes = ()
    http_method_names = []
    schema = None

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> NoReturn:
        raise exceptions.NotFound(
            f"Nothing exists at {request.path}. Check the path: all paths of the API end with a slash."
        )


def _problem_of(error: Exception) -> Problem | None:
    match error:
        case exceptions.ValidationError():
            return _invalid(problems_by_field(error.detail))
        case NotDone():
            return _not_done(error)
        case PreconditionFailed():
            headers = {"ETag": error.tag} if error.tag else {}
            return Problem(error.status_code, error.default_code, str(error.detail), headers=headers)
        case CoordinationError():
            return Problem(status.HTTP_503_SERVICE_UNAVAILABLE, "coordination_unavailable", sentence(error))
        case ProtectedError() | RestrictedError():
            return Problem(status.HTTP_409_CONFLICT, "in_use", "Other objects still use it. Remove these first.")
        case IntegrityError():
            return Problem(
                status.HTTP_409_CONFLICT,
                "conflict",
                ("Another request changed the same object at this moment. Read it again, then repeat your change."),
            )
        case Http404():
            return Problem(status.HTTP_404_NOT_FOUND, "not_found", "No object with this ID exists.")
        case django_errors.PermissionDenied():
            return Problem(status.HTTP_403_FORBIDDEN, "permission_denied", "Your role does not permit this.")
        case django_errors.RequestDataTooBig():
            return Problem(status.HTTP_413_REQUEST_ENTITY_TOO_LARGE, "too_large", "The body is too large.")
        case OperationalError() | psycopg.OperationalError() if lost_a_conflict(error):
            # PostgreSQL has rolled back the whole transaction because of a concurrent transaction.
            return Problem(
                status.HTTP_409_CONFLICT,
                "conflict",
                "Another change of the same objects was made at this moment, so nothing was changed. Try again.",
            )
        case OperationalError() if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
            return Problem(
                status.HTTP_503_SERVICE_UNAVAILABLE,
                "too_slow",
                "The request took too long. Narrow it with more filters.",
            )
        case _ if is_outage(error):
            logger.warning("the database does not answer: %s", error)
            return Problem(status.HTTP_503_SERVICE_UNAVAILABLE, "database_unavailable", f"{outage(error)}; try again.")
        case exceptions.APIException():
            return _of_the_framework(error)
        case _:
            return None


def _not_done(error: NotDone) -> Problem:
    status_code = _STATUS.get(error.code, status.HTTP_409_CONFLICT)
    match error:
        case NameTaken():
            return Problem(status_code, error.code, str(error), fields=error.problems)
        case Invalid():
            return _invalid(error.problems)
        case TransitionRefused():
            return Problem(status_code, error.code, str(error), allowed=error.allowed)
        case HostsUnknown():
            return Problem(status_code, error.code, f'{error} To do it anyway, send "confirm": true.')
        case _:
            return Problem(status_code, error.code, str(error))


def _invalid(fields: Mapping[str, Sequence[str]]) -> Problem:
    about = ", ".join(fields)
    return Problem(status.HTTP_400_BAD_REQUEST, "invalid", f"{_UNCHANGED}Invalid fields: {about}.", fields=fields)


def _of_the_framework(error: exceptions.APIException) -> Problem:
    headers = {}
    if getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = str(error.auth_header)  # type: ignore[attr-defined]
    if getattr(error, "wait", None):
        headers["Retry-After"] = str(error.wait)  # type: ignore[attr-defined]
    return Problem(error.status_code, str(error.default_code), str(error.detail), headers=headers)


def problems_by_field(detail: object) -> dict[str, list[str]]:
    """Return the problems of a serializer by field, with inner fields and items of lists behind a dot."""
    return dict(_flat(detail))


def _flat(detail: object, *, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the problems by field, with inner fields and items of lists behind a dot."""
    match detail:
        case dict():
            for name, inner in detail.items():
                yield from _flat(inner, path=_below(path, str(name)))
        case list() if all(isinstance(sentence, str) for sentence in detail):
            yield path or "request", [str(sentence) for sentence in detail]
        case list():
            for number, inner in enumerate(detail):
                yield from _flat(inner, path=_below(path, str(number)))
        case _:
            yield path or "request", [str(detail)]


def _below(path: str, name: str) -> str:
    # A problem that is not about a field of an inner object, but about the object, gets the name of the object.
    if name == "request" and path:
        return path
    return f"{path}.{name}" if path else name
