"""The set-up pages of jobs: creating, changing and controlling them."""

from collections.abc import Callable
from typing import Any, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import ForeignKey, Model, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from unfold.admin import StackedInline
from unfold.decorators import action as detail_action

from jobs.admin.connector_form import BUILT_FOR, fieldset_for, form_for
from jobs.admin.first_job import FIELDS as SHORT_FIELDS
from jobs.admin.first_job import TYPED, FirstJobForm, time_zones, values_of
from jobs.admin.job_checks import check_seed, coming_starts
from jobs.admin.job_form import JobForm, SeedForm, SeedFormSet, keeps_its_seeds, rehearsal_of
from jobs.admin.lists import JournaledList
from jobs.admin.plain_select import PlainSelect
from jobs.admin.rehearsal_shown import shown
from jobs.admin.rehearse_button import WithRehearsal
from jobs.checks.job_options import GUARD, INTERVALS
from jobs.connectors.repository import registry
from jobs.connectors.repository.kind import RepositoryKind
from jobs.lifecycle.job import Phase, is_possible
from jobs.models import Job, OutputConnection, RepositoryConnection, Seed, ThrottlePolicy
from jobs.queries.few_choices import offer_few
from jobs.state.transitions import TransitionRefused
from jobs.verbs import control, editing
from nodes.admin.confirmation import confirm_for_one, may_offer, row_number
from nodes.database.clock import read_clock
from nodes.errors import NotDone
from nodes.tasks.models import Task
from nodes.web.translated_words import translated


class SeedInline(StackedInline):  # type: ignore[misc]
    model = Seed
    form = SeedForm
    formset = SeedFormSet
    extra = 0
    min_num = 1
    verbose_name, verbose_name_plural = _("seed"), _("seeds")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Seed]:
        seeds: QuerySet[Seed] = super().get_queryset(request)
        return seeds.filter(removed_at=None)

    def get_formset(self, request: HttpRequest, obj: Job | None = None, **kwargs: Any) -> Any:  # noqa: ANN401 (a generated type)
        """
        Return the formset. The policies are read once for all seeds, and include the policies of the stored seeds.
        """
        formset = super().get_formset(request, obj, **kwargs)
        chosen = obj.seeds.filter(removed_at=None).values_list("policy", flat=True).distinct() if obj else ()
        field = formset.form.base_fields["policy"]
        field.queryset = ThrottlePolicy.objects.filter(private_to=None)
        offer_few(field, chosen=map(str, chosen))
        return formset

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "ModelChoiceField[Any] | None":
        if db_field.name == "policy":
            kwargs["widget"] = PlainSelect()
        field: ModelChoiceField[Any] | None = super().formfield_for_foreignkey(db_field, request, **kwargs)
        return field


class MoreSeedsInline(SeedInline):
    """Further seeds of a new job. The first seed has a short field of its own."""

    min_num = 0
    verbose_name = _("further seed")
    verbose_name_plural = _("further seeds")


def _action(verb: control.Verb) -> Callable[..., None]:
    """Return the action of the list of jobs that performs a verb."""
    right = "remove" if verb.permission == "jobs.delete_job" else "control"
    label = _("Delete jobs and their indexed documents") if verb.name == "delete" else _(verb.label)

    @admin.action(description=label, permissions=[right])
    def perform(_admin: "JobAdmin", request: HttpRequest, jobs: QuerySet[Job]) -> None:
        for job in jobs:
            try:
                change = verb.perform(job.pk, made_by=request.user.get_username(), now=read_clock())
            except NotDone as refused:
                messages.warning(request, str(refused))
            else:
                messages.success(request, f"{change.job.name}: {translated(change.job.status)}.")

    # Django identifies an action by the name of its function.
    perform.__name__ = verb.name.replace("-", "_")
    return perform


def _detail_action(verb: control.Verb) -> Callable[..., HttpResponseBase]:
    """Return the action of a job's page that asks for a confirmation, and then performs a verb."""

    def perform(admin_: "JobAdmin", request: HttpRequest, object_id: str) -> HttpResponseBase:
        job_id = row_number(object_id)
        job = get_object_or_404(Job, pk=job_id)

        def make() -> str:
            change = verb.perform(job_id, made_by=request.user.get_username(), now=read_clock())
            return f"{change.job.name}: {translated(change.job.status)}."

        return confirm_for_one(
            request,
            admin_.admin_site,
            title=f"{translated(verb.label)}: {job.name}",
            question=translated(verb.effect),
            back=reverse("admin:jobs_job_changelist"),
            act=make,
        )

    # unfold finds an action and its permission by the name of the function.
    perform.__name__ = _name_of(verb)
    decorate = detail_action(description=_(verb.label), url_path=f"do-{verb.name}", permissions=(_name_of(verb),))
    return cast(Callable[..., HttpResponseBase], decorate(perform))


def _is_legal(verb: control.Verb) -> Callable[..., bool]:
    """
    Return a function for the permission check of an action. It returns True if the user may perform the verb, and the
    state of the job permits it.
    """

    def has_permission(_admin: "JobAdmin", request: HttpRequest, object_id: str | None = None) -> bool:
        if object_id is None or not request.user.has_perm(verb.permission):
            return False
        job = _asked_about(request, row_number(object_id))
        action, why = f"do-{verb.name}", str(TransitionRefused(job, verb.name)) if job is not None else ""
        possible = job is not None and is_possible(verb.transition, job.state)
        return may_offer(request, action, is_possible=possible, why=why, model=Job, object_id=object_id)

    return has_permission


def _asked_about(request: HttpRequest, job_id: int) -> Job | None:
    """Return the job of a page. It is read once for each request, because each verb of the page needs it."""
    if not hasattr(request, "job_asked_about"):
        request.job_asked_about = Job.objects.filter(pk=job_id).first()  # type: ignore[attr-defined]
    found: Job | None = request.job_asked_about  # type: ignore[attr-defined]
    return found


def _name_of(verb: control.Verb) -> str:
    return f"do_{verb.name.replace('-', '_')}"


class JobAdmin(WithRehearsal, JournaledList):
    """
    The pages of jobs. The form allows the changes that the state of the job permits.

    A job is deleted by an action, because its documents must also leave the outputs. The source of a job never changes,
    because another source would not know the stored documents.
    """

    form = JobForm
    add_form_template = "admin/jobs/first_job.html"
    change_form_before_template = "admin/jobs/job_rehearsal.html"
    inlines = (SeedInline,)
    list_display = ("name", "page", "status", "repository", "priority")
    list_filter = ("phase",)
    search_fields = ("name", "repository__name")
    actions = tuple(_action(verb) for verb in control.VERBS.values())
    actions_detail = tuple(_name_of(verb) for verb in control.VERBS.values())
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("name", "repository", "outputs", BUILT_FOR)}),
        (_("Schedule"), {"fields": ("kind", *INTERVALS, "start_method", "windows")}),
        (_("Freshness"), {"fields": ("freshness_goals",)}),
        (_("Scope limits"), {"fields": ("hop_limits", "hop_mode", "max_documents")}),
        (_("Delete guard"), {"fields": GUARD}),
        (_("Access"), {"fields": ("access_rules",)}),
        (_("Archive and versions"), {"fields": ("archive", "kept_versions")}),
        (_("Priority"), {"fields": ("priority",)}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Job | None = None) -> tuple[str, ...]:
        return ("repository",) if obj else ()

    def get_form(self, request: HttpRequest, obj: Job | None = None, **kwargs: Any) -> Any:  # noqa: ANN401 (a generated type)
        form = JobForm if obj else FirstJobForm
        built = super().get_form(request, obj, form=form_for(form, _kind(request, obj)), **kwargs)
        built.user = request.user.get_username()
        return built

    def get_fieldsets(self, request: HttpRequest, obj: Job | None = None) -> Any:  # noqa: ANN401 (Django's)
        first, *others = self.fieldsets
        generated = fieldset_for(_("Source settings"), _kind(request, obj), section=JobForm.section)
        short = () if obj else ((None, {"fields": SHORT_FIELDS}),)
        return (*short, first, *generated, *others)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """
        Return the initial values of the form: the values of the job that is duplicated, or a connection to the web and
        a search index.
        """
        if (job := _duplicated(request)) is not None:
            return values_of(job)
        repositories = _usual_repositories(request)
        outputs = list(OutputConnection.objects.filter(connector="search").order_by("pk")[:1])
        return {
            "name": "",
            **{name: request.GET[name] for name in TYPED if name in request.GET},
            **({"repository": repositories[0].pk} if repositories else {}),
            **({"outputs": [outputs[0].pk]} if outputs else {}),
        }

    def get_inlines(self, request: HttpRequest, obj: Job | None) -> tuple[type[SeedInline], ...]:
        """Return the form of the seeds; none if the job has too many seeds for a form. These then stay as they are."""
        if obj is None:
            return (MoreSeedsInline,)
        return () if keeps_its_seeds(obj) else self.inlines

    # --- The form of a new job -------------------------------------------------------------------

    def get_urls(self) -> list[Any]:
        def answering(answer: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
            def for_adders(request: HttpRequest) -> HttpResponseBase:
                if not self.has_add_permission(request):
                    raise PermissionDenied
                return answer(request)

            return cast(Callable[..., HttpResponseBase], self.admin_site.admin_view(for_adders))

        own = [
            path("starts/", answering(coming_starts), name="jobs_job_starts"),
            path("check/", answering(require_POST(check_seed)), name="jobs_job_check"),
        ]
        return [*own, *super().get_urls()]

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponseBase:
        context = {"zones": time_zones(), "title": _("New job"), **(extra_context or {})}
        response: HttpResponseBase = super().add_view(request, form_url, context)
        return response

    # --- The effects of a change -----------------------------------------------------------------

    def may_rehearse(self, request: HttpRequest, obj: Model | None) -> bool:
        return isinstance(obj, Job) and self.has_change_permission(request, obj)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """Add the effects of a change to the page if they were requested."""
        found = rehearsal_of(context["adminform"].form.instance)
        of_task = {"rehearsal_task": found} if isinstance(found, Task) else {"rehearsal": found and shown(found)}
        return super().render_change_form(request, context | of_task, *args, **kwargs)

    # --- Permissions -------------------------------------------------------------------------------

    def has_change_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        """False for a job that ends or is being deleted: it cannot be changed."""
        allowed: bool = super().has_change_permission(request, obj)
        return allowed and (obj is None or obj.phase in {Phase.INACTIVE, *editing.RUNNING_PHASES})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponseBase:
        """Redirect to the job's own page if the job cannot be changed."""
        job = self.get_object(request, object_id)
        has_role = super().has_change_permission(request, job)
        if request.method == "POST" and job is not None and has_role and not self.has_change_permission(request, job):
            said = _("%(job)s is ending or being deleted, so nothing was stored.") % {"job": job.name}
            messages.warning(request, said)
            return redirect("job", job.pk)
        if request.method != "POST" and job is not None:
            if not self.has_change_permission(request, job):
                return redirect("job", job.pk)
            if job.phase != Phase.INACTIVE:
                messages.info(
                    request, _("The job is running. Only addresses, priority and schedule can be changed now.")
                )
            if keeps_its_seeds(job):
                messages.info(request, _("The job has too many seeds for this form. Change them through the API."))
        response: HttpResponseBase = super().change_view(request, object_id, form_url, extra_context)
        return response

    def has_delete_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        """False, because a deleted row would leave the job's documents in the outputs. The action deletes both."""
        return False

    def has_control_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.control_job")

    def has_remove_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.delete_job")

    # --- Saving ----------------------------------------------------------------------------------

    def save_related(
        self,
        request: HttpRequest,
        form: JobForm,
        formsets: list[SeedFormSet],
        change: bool,  # noqa: FBT001 (Django's)
    ) -> None:
        seeds = [wanted for formset in formsets for wanted in formset.wanted_seeds()] if formsets else None
        job = form.instance
        saved = job.wanted.store(job, seeds=seeds, made_by=request.user.get_username())
        job.pk = saved.job.pk
        for warning in saved.warnings:
            messages.warning(request, warning)

    def response_add(self, request: HttpRequest, obj: Job, post_url_continue: str | None = None) -> HttpResponse:
        """Redirect to the page of the new job, which has its Start button."""
        if {"_continue", "_addanother", "_popup"} & request.POST.keys():
            return cast(HttpResponse, super().response_add(request, obj, post_url_continue))
        messages.success(request, _("%(job)s is stored. Start it here.") % {"job": obj.name})
        return redirect("job", obj.pk)

    def response_change(self, request: HttpRequest, obj: Job) -> HttpResponse:
        if {"_continue", "_addanother", "_popup"} & request.POST.keys():
            return cast(HttpResponse, super().response_change(request, obj))
        messages.success(request, _("%(job)s is stored.") % {"job": obj.name})
        return redirect("job", obj.pk)

    # --- The list --------------------------------------------------------------------------------

    @admin.display(description=_("status"))
    def status(self, job: Job) -> str:
        return job.status

    @admin.display(description=_("page"))
    def page(self, job: Job) -> str:
        return format_html('<a href="{}">{}</a>', reverse("job", args=[job.pk]), _("watch"))


for _verb in control.VERBS.values():
    setattr(JobAdmin, _name_of(_verb), _detail_action(_verb))
    setattr(JobAdmin, f"has_{_name_of(_verb)}_permission", _is_legal(_verb))


def _chosen(request: HttpRequest) -> list[RepositoryConnection]:
    """Return the connection that a form or an address names, if any."""
    named = request.POST.get("repository") or request.GET.get("repository") or ""
    return list(RepositoryConnection.objects.filter(pk=int(named))) if named.isdecimal() and len(named) < 19 else []


def _usual_repositories(request: HttpRequest) -> list[RepositoryConnection]:
    """
    Return a list with one connection: the selected one, otherwise the oldest one to the web, otherwise the oldest. The
    list is empty if no connection exists.
    """
    if chosen := _chosen(request):
        return chosen
    every = RepositoryConnection.objects.order_by("pk")
    return list(every.filter(connector="web")[:1]) or list(every[:1])


def _duplicated(request: HttpRequest) -> Job | None:
    """Return the job to duplicate, which the address of the form names; None if it names none."""
    named = request.GET.get("like", "")
    if not named.isdecimal() or len(named) > 18:
        return None
    return Job.objects.filter(pk=int(named)).first()


def _kind(request: HttpRequest, job: Job | None) -> RepositoryKind | None:
    """
    Return the connector of the shown job, of the job that is duplicated, or of the selected connection. If no
    connection exists, return the connector that a new job gets. Return None if the connector is not installed.
    """
    if job is None and not _chosen(request):
        job = _duplicated(request)
    if job is not None:
        return registry.installed().get(job.repository.connector)
    repositories = _usual_repositories(request)
    return registry.installed().get(repositories[0].connector if repositories else "web")
