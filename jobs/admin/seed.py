"""The seeds of all jobs in the set-up pages. A seed is changed on the page of its job. An action here removes it."""

from collections import defaultdict
from typing import Any, Final

from django.contrib import admin
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import action

from jobs.lifecycle.job import Phase
from jobs.models import Job, Lane, QueueItem, Seed
from jobs.queries.documents.conditions import hashes_of
from jobs.verbs import editing
from jobs.verbs.seeds import SeedWanted
from nodes.admin.by_key import ListByKey
from nodes.admin.confirmation import confirm_for_one, confirm_for_selected, may_offer, row_number
from nodes.database.clock import read_clock
from nodes.errors import Refused

_MAY_CHANGE: Final = "jobs.change_job"
# Largest number of addresses that the page of a seed shows, because a seed may have very many.
_SHOWN: Final = 20
_CHANGEABLE: Final = (Phase.INACTIVE, *editing.RUNNING_PHASES)


class SeedAdmin(ListByKey):
    key = ("id",)
    list_display = ("number", "first_address", "of_job", "policy", "tag", "seeded_run")
    search_fields = ("=job__name",)
    search_help_text = gettext_lazy("Number of a seed, name of its job, or an address that it led to")
    list_select_related = ("job", "policy")
    fields = ("of_job", "addresses", "policy", "group", "tag", "seeded_run", "seeding_version")
    readonly_fields = fields
    actions = ("remove_selected",)
    actions_detail = ("edit_job", "remove")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Seed]:
        found: QuerySet[Seed] = super().get_queryset(request)
        return found.filter(removed_at=None).annotate(first=F("urls__0"), length=F("urls__len")).defer("urls")

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:  # noqa: ANN401 (Django's)
        said = search_term.strip()
        if said.isdecimal() and len(said) < 19:
            return queryset.filter(pk=int(said)), False
        if not said:
            return queryset, False
        job = Job.objects.filter(name=said).first()
        if job is not None:
            return queryset.filter(job=job), False
        # The search uses the queue, which has an index of addresses by hash. The lists of seeds have no index.
        lanes = QueueItem.objects.filter(hash__in=hashes_of(said)).values("lane")
        return queryset.filter(pk__in=list(Lane.objects.filter(pk__in=lanes).values_list("seed", flat=True))), False

    def rows_after(self, found: QuerySet[Any], after: str) -> QuerySet[Any]:
        return found.filter(pk__gt=int(after))

    @admin.display(description=gettext_lazy("number"))
    def number(self, seed: Seed) -> str:
        return str(seed.pk)

    @admin.display(description=gettext_lazy("address"))
    def first_address(self, seed: Any) -> str:  # noqa: ANN401 (Django's)
        more = (seed.length or 0) - 1
        return _("%(first)s and %(n)d more") % {"first": seed.first, "n": more} if more > 0 else str(seed.first or "—")

    @admin.display(description=gettext_lazy("addresses"))
    def addresses(self, seed: Seed) -> str:
        more = len(seed.urls) - _SHOWN
        lines = [*seed.urls[:_SHOWN], *([_("and %(n)d more") % {"n": more}] if more > 0 else [])]
        return "\n".join(lines)

    @admin.display(description=gettext_lazy("job"))
    def of_job(self, seed: Seed) -> str:
        return format_html('<a href="{}">{}</a>', reverse("job", args=[seed.job_id]), seed.job.name)

    # --- Actions ---------------------------------------------------------------------------------

    def has_edit_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm(_MAY_CHANGE)

    def has_remove_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """True if the job of the seed can be changed now, and has another seed."""
        if not self.has_edit_permission(request):
            return False
        if object_id is None:
            return True
        seed = Seed.objects.filter(pk=row_number(object_id), removed_at=None, job__phase__in=_CHANGEABLE).first()
        possible = (
            seed is not None and Seed.objects.filter(job=seed.job_id, removed_at=None).exclude(pk=seed.pk).exists()
        )
        why = _("The seed was removed, is the only one of its job, or its job cannot be changed now.")
        return may_offer(request, "remove", is_possible=possible, why=why, model=Seed, object_id=object_id)

    @admin.action(description=gettext_lazy("Remove seeds from their jobs"), permissions=["remove"])
    def remove_selected(self, request: HttpRequest, chosen: QuerySet[Seed]) -> HttpResponseBase:
        seeds = list(chosen)
        return confirm_for_selected(
            request,
            self.admin_site,
            seeds,
            title=_("Remove seeds"),
            question=_("The next run no longer reads these seeds, and removes documents that only they lead to."),
            act=lambda: _remove(request, seeds),
        )

    @action(description=gettext_lazy("Edit in its job"), url_path="edit", permissions=("edit",))  # type: ignore[untyped-decorator]
    def edit_job(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        seed = Seed.objects.filter(pk=row_number(object_id)).first()
        return (
            redirect("admin:jobs_seed_changelist") if seed is None else redirect("admin:jobs_job_change", seed.job_id)
        )

    @action(description=gettext_lazy("Remove"), url_path="remove", permissions=("remove",))  # type: ignore[untyped-decorator]
    def remove(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        seed = Seed.objects.select_related("job").get(pk=row_number(object_id))
        return confirm_for_one(
            request,
            self.admin_site,
            title=_("Remove"),
            question=_(
                "Remove the seed %(seed)s from %(job)s? The next run no longer reads it, and removes documents that only it leads to."
            )
            % {"seed": seed, "job": seed.job.name},
            back=reverse("admin:jobs_seed_changelist"),
            act=lambda: _remove(request, [seed]),
        )


def _remove(request: HttpRequest, seeds: list[Seed]) -> str:
    """
    Remove seeds from their jobs.

    Raises:
        Refused: a job would have no seed left. Jobs with a lower id have already lost their seeds of this list.
        Invalid: a job cannot be changed now.
    """
    of_jobs: defaultdict[int, set[int]] = defaultdict(set)
    for seed in seeds:
        of_jobs[seed.job_id].add(seed.pk)
    for job_id, leaving in sorted(of_jobs.items()):
        job = Job.objects.get(pk=job_id)
        stored = job.seeds.filter(removed_at=None).exclude(pk__in=leaving).select_related("policy")
        kept = [SeedWanted(tuple(seed.urls), seed.policy, seed.tag, seed.pk) for seed in stored]
        if not kept:
            raise Refused(_("%(job)s needs a seed. Keep one of them, or delete the job.") % {"job": job.name})
        editing.change_job(job_id, seeds=kept, made_by=str(request.user.get_username()), now=read_clock())
    return _("Seeds removed: %(n)d.") % {"n": len(seeds)}
