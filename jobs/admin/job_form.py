"""
The form of a job and its seeds.

The job's form holds the specification and the outputs. Django checks the formset of the seeds after this form. So the
formset can check the whole job, and does so in `_check_whole_job`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django import forms
from django.core.exceptions import ValidationError
from django.forms import BaseInlineFormSet, ModelChoiceField
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from jobs.admin.connector_form import BUILT_FOR, ConnectorForm, Lines
from jobs.admin.dry_run import dry_run
from jobs.admin.job_option_fields import OPTION_FIELDS, OptionsForm
from jobs.admin.rehearse_button import REHEARSE
from jobs.connectors.repository.registry import UnknownConnector, check_specification
from jobs.lifecycle.job import Phase
from jobs.models import Job, RepositoryConnection, Seed, ThrottlePolicy
from jobs.queries.few_choices import offer_few
from jobs.queries.rehearsals.jobs import Rehearsal
from jobs.verbs import editing
from jobs.verbs.first_job import PACES, output_for_search, policy_of, repository_for_web
from jobs.verbs.rehearsing import rehearse
from jobs.verbs.seeds import SeedWanted
from nodes.database.clock import read_clock
from nodes.errors import Invalid
from nodes.tasks.models import Task

# Largest numbers of seeds and of addresses in a form.
_MOST_SEEDS: Final = 50
_MOST_ADDRESSES: Final = 5_000


@dataclass(frozen=True, slots=True)
class FirstSeed:
    """
    The addresses in the short fields of a new job, and their pace: a key of `PACES`, the id of a policy, or "".
    """

    addresses: tuple[str, ...]
    pace: str = ""

    def wanted(self, *, made_by: str) -> list[SeedWanted]:
        """
        Return a list with the seed; an empty list without addresses. The policy of its pace is stored if it does not
        exist.
        """
        if not self.addresses:
            return []
        policy = None
        if self.pace in PACES:
            policy = policy_of(self.pace, made_by=made_by)
        elif self.pace.isdecimal():
            policy = ThrottlePolicy.objects.filter(pk=int(self.pace), private_to=None).first()
        return [SeedWanted(self.addresses, policy)]


@dataclass(frozen=True, slots=True)
class JobWanted:
    """The content of a valid job form. The seeds come from the formset, and a new job's `first` from its short fields."""

    name: str
    outputs: list[Any]
    specification: dict[str, Any]
    max_documents: int | None
    priority: int
    options: dict[str, Any]
    first: FirstSeed | None = None

    def store(self, job: Job, *, seeds: list[SeedWanted] | None, made_by: str) -> editing.JobSaved:
        """
        Store a new or changed job. If `seeds` is None, a changed job keeps its seeds. If no connection to the web or no
        search index is chosen for a new job, an existing one is used or a new one is stored.
        """
        facts = self._facts(job, seeds=seeds, made_by=made_by)
        if job.pk:
            return editing.change_job(job.pk, **facts)
        repository = job.repository if job.repository_id else repository_for_web(made_by=made_by)
        return editing.create_job(repository=repository, **facts)

    def rehearse(self, job: Job, *, seeds: list[SeedWanted] | None, made_by: str) -> Rehearsal | Task:
        """Return the effects of `store` on a stored job, or the task that computes them."""
        return rehearse(job.pk, **self._facts(job, seeds=seeds, made_by=made_by))

    def _facts(self, job: Job, *, seeds: list[SeedWanted] | None, made_by: str) -> dict[str, Any]:
        if seeds is not None and self.first is not None:
            seeds = [*self.first.wanted(made_by=made_by), *seeds]
        return {
            "name": self.name,
            "outputs": self.outputs or ([] if job.pk else [output_for_search(made_by=made_by)]),
            **({} if seeds is None else {"seeds": seeds}),
            "specification": self.specification,
            "max_documents": self.max_documents,
            "priority": self.priority,
            **self.options,
            "made_by": made_by,
            "now": read_clock(),
        }


class JobForm(ConnectorForm, OptionsForm):
    """A job, with a form field for each field of its specification."""

    section = "specification"
    chooser = "repository"
    # The name of the user who sent the form.
    user: ClassVar[str] = ""

    class Meta:
        model = Job
        fields = ("name", "repository", "outputs", "max_documents", "priority", *OPTION_FIELDS)
        labels: ClassVar = {
            "repository": _("Source"),
            "outputs": _("Outputs"),
            "max_documents": _("Document limit per run"),
            "guard_percent": _("Approval threshold (percent removed)"),
            "guard_host_percent": _("Approval threshold per host (percent removed)"),
            "guard_seeds": _("Approval if a seed is lost"),
            "archive": _("Archive"),
        }
        help_texts: ClassVar = {
            "max_documents": _("If empty, no limit applies."),
            "outputs": "",
            "guard_percent": _("Share of the job's documents. If empty, removals never wait for approval."),
            "guard_host_percent": _(
                "Share of the job's documents on one host. If empty, single hosts need no approval."
            ),
            "archive": _("Format of the files that keep raw requests and responses. Only web sources have an archive."),
            "guard_seeds": _(
                "A seed counts as lost if it answers 404 or similar. It also counts as lost if it has lost its "
                "links and most documents of its host would be removed."
            ),
        }
        widgets: ClassVar = {"outputs": UnfoldAdminCheckboxSelectMultipleWidget}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if _runs(self.instance):
            for name, field in self.fields.items():
                field.disabled = name not in {*editing.CHANGES_WHILE_IT_RUNS, BUILT_FOR}
        chosen = self.instance.outputs.values_list("pk", flat=True) if self.instance.pk else ()
        self._offer_few("outputs", chosen)
        self._offer_few("repository", ())

    def further_compared_values(self) -> bool:
        """
        True if the job runs: most fields then keep their stored values. `SeenForm` notices if the job started or ended
        meanwhile.
        """
        return _runs(self.instance)

    def clean(self) -> dict[str, Any]:
        values = super().clean()
        if self.errors:
            return values
        specification = self.column_value(values)
        repository = values.get("repository") or self._stored_repository()
        try:
            self.add_problems(check_specification(repository, specification=specification, seeds=[]).problems)
        except UnknownConnector as unknown:
            self.add_error(None, str(unknown))
        if why := editing.why_no_group(repository, values["access_rules"]):
            self.add_error("access_rules", why)
            return values
        self.instance.wanted = JobWanted(
            name=values["name"],
            outputs=list(values["outputs"]),
            specification=specification,
            max_documents=values["max_documents"],
            priority=values["priority"],
            options=self.chosen_options(),
            first=getattr(self.instance, "first_seed", None),
        )
        self.instance.changed_by = self.user
        if keeps_its_seeds(self.instance):
            _check_whole_job(self.instance, seeds=None, rehearses=REHEARSE in self.data)
        return values

    def is_valid(self) -> bool:
        """False for a rehearsal, so that it is never stored."""
        return super().is_valid() and REHEARSE not in self.data

    def _stored_repository(self) -> RepositoryConnection:
        """Return the job's connection. If no connection is stored yet, return the one that the new job will get."""
        return self.instance.repository if self.instance.repository_id else RepositoryConnection(connector="web")

    def _offer_few(self, name: str, stored: Iterable[int]) -> None:
        """
        Limit the choices of a field: if there are very many objects, the field offers only the newest objects, the
        stored ones and the selected ones.
        """
        if isinstance(field := self.fields.get(name), ModelChoiceField):
            said = [*self.data.getlist(name)] if isinstance(self.data, QueryDict) else [str(self.initial.get(name, ""))]
            offer_few(field, chosen=[*map(str, stored), *said])


class SeedForm(forms.ModelForm):  # type: ignore[type-arg]
    urls = Lines(label=_("Addresses"), help_text=_("Seed addresses, one per line."))

    class Meta:
        model = Seed
        fields = ("urls", "policy", "tag")
        labels: ClassVar = {"policy": _("Throttle policy"), "tag": _("Worker tag")}


def _runs(job: Job) -> bool:
    return bool(job.pk) and job.phase != Phase.INACTIVE


def keeps_its_seeds(job: Job | None) -> bool:
    """True if a job has more seeds, or addresses, than a form can show. The form then does not change them."""
    if job is None or not job.pk:
        return False
    lengths = job.seeds.filter(removed_at=None).values_list("urls__len", flat=True)[: _MOST_SEEDS + 1]
    return len(lengths) > _MOST_SEEDS or sum(length or 0 for length in lengths) > _MOST_ADDRESSES


def rehearsal_of(job: Job) -> Rehearsal | Task | None:
    """
    Return the effects that the form of a job requested, or the task that computes them; None if it requested none.
    """
    return getattr(job, "rehearsal", None)


def _check_whole_job(job: Job, *, seeds: list[SeedWanted] | None, rehearses: bool) -> None:
    """Store the job of a form, and roll this back, to find the problems that only the whole job shows. If the form
    `rehearses` a change of a stored job, keep the effects at the job instead.

    Raises:
        ValidationError: the job is invalid."""
    wanted: JobWanted = job.wanted  # type: ignore[attr-defined]  # the content of the form
    try:
        if rehearses and job.pk:
            job.rehearsal = wanted.rehearse(job, seeds=seeds, made_by=job.changed_by)  # type: ignore[attr-defined]
            return
        with dry_run():
            wanted.store(job, seeds=seeds, made_by="")
    except Invalid as invalid:
        raise ValidationError([sentence for sentences in invalid.problems.values() for sentence in sentences]) from None


class SeedFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    """The formset of the seeds of a job. It checks the job as a whole."""

    def clean(self) -> None:
        super().clean()
        wanted = getattr(self.instance, "wanted", None)
        if wanted is None or any(self.errors):
            return
        _check_whole_job(self.instance, seeds=self.wanted_seeds(), rehearses=REHEARSE in self.data)

    def is_valid(self) -> bool:
        """False for a rehearsal, so that it is never stored."""
        return super().is_valid() and REHEARSE not in self.data

    def wanted_seeds(self) -> list[SeedWanted]:
        """Return the seeds of the filled forms, in the order of the forms."""
        filled = [form.cleaned_data for form in self.forms if form not in self.deleted_forms]
        return [
            SeedWanted(tuple(values["urls"]), values.get("policy"), values.get("tag", ""))
            for values in filled
            if values.get("urls")
        ]
