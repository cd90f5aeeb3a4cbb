"""`GET /UserACLs` at the web server: ManifoldCF's authority service, for services with a token."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_GET

from jobs.authorities.callers import find_caller
from jobs.authorities.contract import CONTENT_TYPE, read_question, text_of
from jobs.authorities.threaded_service import authority_service
from nodes.errors import Invalid


@require_GET
def user_acls(request: HttpRequest) -> HttpResponseBase:
    """Return the tokens of a user, line by line."""
    if find_caller(request) is None:
        said = "Send the token of a service as Authorization: Bearer …\n"
        return HttpResponse(
            said, status=401, content_type="text/plain; charset=utf-8", headers={"WWW-Authenticate": "Bearer"}
        )
    try:
        question = read_question(request.GET.dict().items())
    except Invalid as invalid:
        return HttpResponse(f"{invalid.by_field}\n", status=400, content_type="text/plain; charset=utf-8")
    return HttpResponse(text_of(question, authority_service().ask(question.users)), content_type=CONTENT_TYPE)
