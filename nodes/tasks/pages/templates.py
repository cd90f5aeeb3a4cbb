"""The form that creates or changes a template."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from nodes.errors import Invalid, Refused
from nodes.tasks import verbs
from nodes.tasks.models import TaskTemplate
from nodes.tasks.pages.forms import TemplateForm
from nodes.tasks.pages.frame import (
    MAY_MAKE_TEMPLATES,
    MAY_REMOVE_TEMPLATES,
    chosen_kind,
    offered_kinds,
    page,
    tabs,
)
from nodes.web.pages import user_with_permission
from nodes.web.translated_words import translated


@page
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """Show the kinds, or the form of one kind; on POST, create the template."""
    name = user_with_permission(request, MAY_MAKE_TEMPLATES)
    kind = chosen_kind(request)
    if kind is None:
        return render(
            request, "tasks/kinds.html", {"kinds": offered_kinds(), "title": _("New template"), "tabs": tabs("")}
        )
    form = TemplateForm(kind, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        wanted = form.wanted()
        if TaskTemplate.objects.filter(urn=wanted["urn"]).exists():
            form.add_error("urn", _("Another template has this name. Choose another name."))
        elif (stored := _store(request, form, made_by=name)) is not None:
            return stored
    return _show(request, form, title=_("New template: %(kind)s") % {"kind": translated(kind.title)})


@page
@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, template_id: int) -> HttpResponse:
    """Show the form of a template; on POST, change it. Its counters stay."""
    name = user_with_permission(request, MAY_MAKE_TEMPLATES)
    template = _find(template_id)
    kind = next((kind for kind in offered_kinds() if kind.name == template.kind), None)
    if kind is None:
        messages.warning(
            request, _("Only crawlctl itself makes tasks of this kind, so the template cannot be changed.")
        )
        return redirect("tasks-templates")
    form = TemplateForm(kind, request.POST if request.method == "POST" else None, template=template)
    if request.method == "POST" and form.is_valid() and (stored := _store(request, form, made_by=name)) is not None:
        return stored
    return _show(request, form, title=template.urn, template=template)


@page
@require_POST
def remove(request: HttpRequest, template_id: int) -> HttpResponse:
    """Remove a template. Its tasks stay."""
    name = user_with_permission(request, MAY_REMOVE_TEMPLATES)
    template = _find(template_id)
    try:
        verbs.remove_template(template.urn, made_by=name)
    except Refused as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(
            request, _("The template %(urn)s is removed. The tasks that it has made stay.") % {"urn": template.urn}
        )
    return redirect("tasks-templates")


def _find(template_id: int) -> TaskTemplate:
    template = TaskTemplate.objects.filter(pk=template_id).first() if template_id < 2**63 else None
    if template is None:
        raise Http404(_("This template does not exist."))
    return template


def _store(request: HttpRequest, form: TemplateForm, *, made_by: str) -> HttpResponse | None:
    """Store a valid form. Return None if its parts are invalid, which the form then shows."""
    try:
        template = verbs.put_template(**form.wanted(), made_by=made_by)
    except Invalid as invalid:
        form.show(invalid)
        return None
    messages.success(request, _("The template %(urn)s is stored.") % {"urn": template.urn})
    return redirect("tasks-templates")


def _show(
    request: HttpRequest, form: TemplateForm, *, title: str, template: TaskTemplate | None = None
) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form,
        "kind": form.kind,
        "title": title,
        "go": _("Save"),
        "back": reverse("tasks-templates"),
        "removable": template if template is not None and not template.is_built_in else None,
        "tabs": tabs(""),
    }
    return render(request, "tasks/form.html", context)
