"""The pages of scheduled reports by e-mail: the form that creates or changes one, and its removal."""

import json
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from jobs.notices import mailings
from jobs.notices.models import NotificationChannel, ReportMailing
from jobs.notices.pages.forms import add_problems
from nodes.api.parsing import json_in
from nodes.errors import Invalid
from nodes.tasks.models import TaskTemplate
from nodes.web.form_conflicts import SeenForm
from nodes.web.pages import page_for, user_with_permission

_page: Final = page_for("notices.view_notificationrule")
_SCHEDULE: Final = ("cron", "time_zone", "every_minutes")
# Fields of the form, by the names of fields of the template of tasks whose problems they show.
_PLACES: Final = {f"schedule.{name}": name for name in _SCHEDULE} | {"schedule": "cron"}


class MailingForm(SeenForm, forms.Form):
    """The parts of a scheduled report."""

    use_required_attribute = False

    name = forms.CharField(max_length=64, label=gettext_lazy("Name"))
    report = forms.ChoiceField(choices=[(name, name) for name in mailings.REPORTS], label=gettext_lazy("Report"))
    filter = forms.CharField(
        required=False,
        max_length=4_000,
        label=gettext_lazy("Filter"),
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text=gettext_lazy(
            'JSON with parameters of the report, such as {"job": 1}. If empty, the report has all rows.'
        ),
    )
    hours = forms.IntegerField(initial=24, label=gettext_lazy("Hours of history in the report"))
    channel = forms.ModelChoiceField(
        NotificationChannel.objects.filter(kind="email"), empty_label=None, label=gettext_lazy("Channel")
    )
    recipients = forms.CharField(
        required=False,
        max_length=40_000,
        label=gettext_lazy("Recipients"),
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text=gettext_lazy("One address per line. If empty, the report goes to the recipients of the channel."),
    )
    cron = forms.CharField(
        required=False,
        max_length=200,
        label=gettext_lazy("Cron expression"),
        help_text=gettext_lazy("Five fields, such as 0 7 * * 1. If empty, set an interval in minutes below."),
    )
    time_zone = forms.CharField(
        required=False,
        max_length=200,
        label=gettext_lazy("Time zone"),
        help_text=gettext_lazy("Such as Europe/Berlin. If empty, UTC."),
    )
    every_minutes = forms.IntegerField(
        required=False, label=gettext_lazy("Interval in minutes, instead of a cron expression")
    )
    as_html = forms.BooleanField(required=False, initial=True, label=gettext_lazy("Also as HTML"))
    attaches_csv = forms.BooleanField(required=False, initial=True, label=gettext_lazy("With a CSV file"))

    def __init__(self, *, stored: ReportMailing | None = None, data: Any = None) -> None:  # noqa: ANN401 (Django's)
        super().__init__(data, initial=_initial_of(stored))
        self.stored = stored
        # The name cannot be changed here, because another name would create another mailing.
        self.fields["name"].disabled = stored is not None

    def clean_filter(self) -> object:
        said = self.cleaned_data["filter"].strip()
        if not said:
            return {}
        try:
            return json_in(said)
        except ValueError:
            raise forms.ValidationError(_("This is not JSON.")) from None

    def facts(self) -> dict[str, Any]:
        """Return the parts of the mailing, as arguments of its verb."""
        values = self.cleaned_data
        names = ("name", "report", "filter", "hours", "as_html", "attaches_csv")
        return {
            **{name: values[name] for name in names},
            "channel": values["channel"].pk,
            "recipients": [line.strip() for line in values["recipients"].splitlines() if line.strip()],
            "schedule": {name: values[name] for name in _SCHEDULE if values[name] not in (None, "")},
        }


@_page
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    made_by = user_with_permission(request, "notices.change_reportmailing")
    form = MailingForm(data=request.POST or None)
    if request.method == "POST" and form.is_valid():
        if ReportMailing.objects.filter(name=form.cleaned_data["name"]).exists():
            form.add_error("name", _("Another report has this name. Choose another name."))
        elif _store(request, form, made_by=made_by):
            return redirect("notifications")
    return render(request, "notices/form.html", {"form": form, "title": _("New report by e-mail")})


@_page
@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, mailing_id: int) -> HttpResponse:
    made_by = user_with_permission(request, "notices.change_reportmailing")
    stored = get_object_or_404(ReportMailing, pk=mailing_id)
    form = MailingForm(stored=stored, data=request.POST or None)
    if request.method == "POST" and form.is_valid() and _store(request, form, made_by=made_by):
        return redirect("notifications")
    return render(request, "notices/form.html", {"form": form, "title": stored.name})


@_page
@require_POST
def remove(request: HttpRequest, mailing_id: int) -> HttpResponse:
    """Remove a mailing with its template of tasks."""
    made_by = user_with_permission(request, "notices.delete_reportmailing")
    name = get_object_or_404(ReportMailing, pk=mailing_id).name
    mailings.remove_mailing(name, made_by=made_by)
    messages.success(request, _("%(name)s was removed.") % {"name": name})
    return redirect("notifications")


def _store(request: HttpRequest, form: MailingForm, *, made_by: str) -> bool:
    """Store a valid form; return True if it was stored."""
    try:
        name = mailings.put_mailing(**form.facts(), made_by=made_by).name
    except Invalid as invalid:
        add_problems(form, {_PLACES.get(field, field): said for field, said in invalid.problems.items()})
        return False
    messages.success(request, _("%(name)s was stored.") % {"name": name})
    return True


def _initial_of(stored: ReportMailing | None) -> dict[str, Any]:
    if stored is None:
        return {}
    names = ("name", "report", "hours", "channel", "as_html", "attaches_csv")
    template = TaskTemplate.objects.filter(urn=stored.template_urn).first()
    return {
        **{name: getattr(stored, name) for name in names},
        **(template.schedule if template else {}),
        "filter": json.dumps(stored.filter) if stored.filter else "",
        "recipients": "\n".join(stored.recipients),
    }
