"""The answers of the palette: pages, jobs, hosts, documents and nodes that a typed text may mean."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from crawlctl.web.navigation import Shell
from jobs.queries.typed_search import Found, find
from jobs.ui.hosts_screen import host_address
from jobs.ui.pages import page
from nodes.models.word_search import words_in


@page
@require_safe
def find_anything(request: HttpRequest) -> JsonResponse:
    """Answer `q` with the results that this user may open: pages first, then jobs, hosts, documents and nodes."""
    text = request.GET.get("q", "")
    results = [*_pages(request, text), *_of_crawl(find(text), user=request.user)]
    return JsonResponse({"results": results})


def _pages(request: HttpRequest, text: str) -> Iterator[dict[str, str]]:
    words = words_in(text)
    # A text of punctuation only, such as a slash, names no page. Without this check, it would find all pages.
    if text.strip() and not words:
        return
    for place in Shell(request).find(words):
        yield {"kind": _("Page"), "name": str(place.label), "says": "", "address": place.address}


def _of_crawl(found: Found, *, user: Any) -> Iterator[dict[str, str]]:  # noqa: ANN401 (Django's union of users)
    for job in found.jobs:
        yield {"kind": _("Job"), "name": job.name, "says": "", "address": reverse("job", args=[job.key])}
    for host in found.hosts:
        address = host_address(host.key, partition=host.partition)
        yield {"kind": _("Host"), "name": host.name, "says": _in_partition(host.partition), "address": address}
    for line in found.documents:
        address = reverse("document", args=[line.job_id, line.hash])
        says = _("in job %(job)s") % {"job": line.job_name}
        yield {"kind": _("Document"), "name": line.identifier, "says": says, "address": address}
    if user.has_perm("nodes.view_node"):
        for node in found.nodes:
            # The set-up has the records of this partition only.
            address = reverse("nodes") if node.partition else reverse("admin:nodes_node_change", args=[node.key])
            yield {"kind": _("Node"), "name": node.name, "says": _in_partition(node.partition), "address": address}
    for silent in found.silent:
        yield {"kind": _("Partition"), "name": silent.name, "says": _("No answer"), "address": reverse("partitions")}


def _in_partition(name: str) -> str:
    return _("In partition %(name)s") % {"name": name} if name else ""
