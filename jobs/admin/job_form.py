"""
The form of a job and its seeds.

The job's form knows what to crawl and where to put it; the formset of its seeds, which is checked
after it, asks `control` about the whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django import forms
from django.core.exceptions import ValidationError
from django.forms import BaseInlineFormSet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from jobs import control
from jobs.admin.rehearsal import rehearsal
from jobs.admin.terms_fields import TERMS, TermsForm
from jobs.connectors.repository.registry import check_specification
from jobs.connectors.repository.web.scope import ScopeKind
from jobs.control import InvalidJob, SeedWanted
from jobs.models import Job, Seed

# Keys of a web job's specification that the form has fields for.
_SPECIFIED: Final = ("scope", "include", "exclude", "max_depth", "user_agent", "allow_private_networks", "robots_wait")

_SCOPES: Final = [
    ("", _("as the connection says (else: host)")),
    (ScopeKind.HOST, _("host: the same host name and port")),
    (ScopeKind.DOMAIN, _("domain: the same registrable domain")),
    (ScopeKind.PREFIX, _("prefix: addresses that begin as the seed does, up to its last slash")),
    (ScopeKind.ANY, _("any: wherever links lead")),
]


class Lines(forms.CharField):
    """A list of texts, one a line."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}), **kwargs)

    def prepare_value(self, value: object) -> object:
        return "\n".join(value) if isinstance(value, list | tuple) else value

    def to_python(self, value: str | None) -> list[str]:  # type: ignore[override]
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def has_changed(self, initial: Sequence[str] | None, data: str | None) -> bool:
        return list(initial or []) != self.to_python(data)


@dataclass(frozen=True, slots=True)
class JobWanted:
    """What a valid job form asks for; the seeds come from the formset."""

    name: str
    outputs: list[Any]
    specification: dict[str, Any]
    max_documents: int | None
    priority: int
    terms: dict[str, Any]

    def store(self, job: Job, *, seeds: list[SeedWanted], made_by: str) -> control.JobSaved:
        """Store the job, new or changed."""
        facts: dict[str, Any] = {
            "name": self.name,
            "outputs": self.outputs,
            "seeds": seeds,
            "specification": self.specification,
            "max_documents": self.max_documents,
            "priority": self.priority,
            **self.terms,
            "made_by": made_by,
            "now": timezone.now(),
        }
        if job.pk:
            return control.change_job(job.pk, **facts)
        return control.create_job(repository=job.repository, **facts)


class JobForm(TermsForm):
    """A job; what its specification says has a field each."""

    scope = forms.ChoiceField(choices=_SCOPES, required=False, label=_("Scope"), widget=UnfoldAdminSelectWidget)
    include = Lines(
        required=False,
        label=_("Only addresses like"),
        help_text=_("Regular expressions (RE2), one a line; empty: all."),
    )
    exclude = Lines(required=False, label=_("No addresses like"), help_text=_("Regular expressions (RE2), one a line."))
    max_depth = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=1_000_000,
        label=_("Links from a seed, at most"),
        help_text=_("Empty: no limit."),
        widget=UnfoldAdminIntegerFieldWidget,
    )
    user_agent = forms.CharField(
        required=False,
        max_length=300,
        label=_("User agent"),
        help_text=_("Empty: as the connection says."),
        widget=UnfoldAdminTextInputWidget,
    )
    robots_wait = forms.FloatField(
        required=False,
        min_value=0,
        max_value=86_400,
        label=_("Wait for robots.txt (seconds)"),
        help_text=_("How long a host whose robots.txt answers 5xx is tried. Empty: as the connection says."),
        widget=UnfoldAdminIntegerFieldWidget,
    )
    allow_private_networks = forms.BooleanField(
        required=False,
        label=_("Enter private networks"),
        help_text=_("Also connect to addresses that are not of the public internet, such as 127.0.0.1 or 10.0.0.1."),
        widget=UnfoldBooleanSwitchWidget,
    )

    class Meta:
        model = Job
        fields = ("name", "repository", "outputs", "max_documents", "priority", *TERMS)
        labels: ClassVar = {
            "repository": _("From"),
            "outputs": _("To"),
            "max_documents": _("Documents a run, at most"),
        }
        help_texts: ClassVar = {"max_documents": _("Empty: no limit."), "outputs": ""}
        widgets: ClassVar = {"outputs": UnfoldAdminCheckboxSelectMultipleWidget}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _SPECIFIED:
            if name in self.fields:
                self.fields[name].initial = self.instance.specification.get(name)

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if self.errors:
            return values
        specification = self._specification(values)
        repository = values.get("repository") or self.instance.repository
        checked = check_specification(repository, specification=specification, seeds=[])
        for name, sentences in checked.problems.items():
            self.add_error(name if name in self.fields else None, sentences)
        self.instance.wanted = JobWanted(
            name=values["name"],
            outputs=list(values["outputs"]),
            specification=specification,
            max_documents=values["max_documents"],
            priority=values["priority"],
            terms=self.wanted_terms(),
        )
        return values

    def _specification(self, values: dict[str, Any]) -> dict[str, Any]:
        """What the job says of its own; what it leaves out, the connection says. Keys without a field stay."""
        kept = {name: value for name, value in self.instance.specification.items() if name not in _SPECIFIED}
        said = {name: values[name] for name in _SPECIFIED if values.get(name) not in (None, "", [], False)}
        return {**kept, **said}


class SeedForm(forms.ModelForm):  # type: ignore[type-arg]
    urls = Lines(label=_("Addresses"), help_text=_("Where to start, one a line."))

    class Meta:
        model = Seed
        fields = ("urls", "policy")
        labels: ClassVar = {"policy": _("Throttle policy")}


class SeedFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    """The seeds of a job; checks the job as a whole."""

    def clean(self) -> None:
        super().clean()
        wanted = getattr(self.instance, "wanted", None)
        if wanted is None or any(self.errors):
            return
        try:
            with rehearsal():
                wanted.store(self.instance, seeds=self.wanted_seeds(), made_by="")
        except InvalidJob as invalid:
            raise ValidationError(
                [sentence for sentences in invalid.problems.values() for sentence in sentences]
            ) from None

    def wanted_seeds(self) -> list[SeedWanted]:
        """Return the seeds that the filled forms name, in their order."""
        filled = [form.cleaned_data for form in self.forms if form not in self.deleted_forms]
        return [SeedWanted(tuple(values["urls"]), values.get("policy")) for values in filled if values.get("urls")]
