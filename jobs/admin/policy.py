"""Throttle policies: creating and changing them, with a preview of a change."""

import datetime as dt
from collections.abc import Iterable
from typing import Any, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_lazy as _
from unfold.admin import StackedInline

from jobs.admin.lists import JournaledList
from jobs.admin.policy_form import WHERE, PolicyForm, RuleForm, RuleFormSet
from jobs.admin.rehearse_button import WithRehearsal
from jobs.admin.versions_link import WithVersions
from jobs.lifecycle.limits import OF_EACH_HOST, TOTALS
from jobs.lifecycle.period import Period
from jobs.models import ThrottlePolicy, ThrottleRule
from jobs.queries.rehearsals.policies import DOCUMENTS_COUNTED, Preview
from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits, gap_of
from jobs.verbs import policies
from jobs.verbs.policies import EVERYWHERE
from jobs.words.limits import limits_in_words
from nodes.errors import NotAllowed, NotDone
from nodes.web import formats

# Largest number of rules whose matches a preview lists.
_RULES_SHOWN: Final = 50


class RuleInline(StackedInline):  # type: ignore[misc]
    """The rules of a policy. A user who may change the policy may change its rules."""

    model = ThrottleRule
    form = RuleForm
    formset = RuleFormSet
    extra = 0
    verbose_name, verbose_name_plural = _("rule"), _("rules")
    fields = (
        ("place", "pattern"),
        ("days", "from_time", "to_time"),
        "denies",
        OF_EACH_HOST[:2],
        OF_EACH_HOST[2:],
        TOTALS,
    )

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:  # noqa: ANN401 (Django's)
        formset = super().get_formset(request, obj, **kwargs)
        formset.may_limit_everywhere = request.user.has_perm(EVERYWHERE)
        return formset

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return request.user.has_perm("jobs.view_throttlepolicy")

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return request.user.has_perm("jobs.change_throttlepolicy" if obj else "jobs.add_throttlepolicy")

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return self.has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return self.has_change_permission(request, obj)


class ThrottlePolicyAdmin(WithRehearsal, WithVersions, JournaledList):
    """The set-up pages of policies. A change applies from the next turn of each host, at most 10 s later."""

    form = PolicyForm
    definition = "policy"
    actions_detail = ("versions",)
    inlines = (RuleInline,)
    # Labels are shown above their fields, so that related fields fit on one line.
    compressed_fields = False
    list_display = ("name", "limits", "in_total", "rule_count", "reach")
    search_fields = ("name",)
    fieldsets = (
        (None, {"fields": ("name",)}),
        (_("Limits per host"), {"fields": (OF_EACH_HOST[:2], OF_EACH_HOST[2:], "unlimited")}),
        (_("Total limits of all its hosts"), {"fields": (TOTALS,)}),
        (_("Scope and times"), {"fields": (WHERE[:2], WHERE[2:], "denied")}),
    )
    change_form_before_template = "admin/jobs/policy_rehearsal.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[ThrottlePolicy]:
        """
        Return the policies to choose from. The private policy of a one-shot's job is only on the page of that job.
        """
        found: QuerySet[ThrottlePolicy] = super().get_queryset(request)
        return found.filter(private_to=None).prefetch_related("rules")

    def may_rehearse(self, request: HttpRequest, obj: Model | None) -> bool:
        return bool(self.has_change_permission(request, obj) if obj else self.has_add_permission(request))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """Add the effects of a change, if they were requested."""
        formset = next((inline.formset for inline in context["inline_admin_formsets"]), None)
        preview = getattr(formset, "preview", None)
        shown = {"preview": preview and _shown(preview)}
        return super().render_change_form(request, context | shown, *args, **kwargs)

    # --- Saving and deleting ---------------------------------------------------------------------

    def save_related(
        self,
        request: HttpRequest,
        form: PolicyForm,
        formsets: list[RuleFormSet],
        change: bool,  # noqa: FBT001 (Django's)
    ) -> None:
        (rules,) = formsets
        wanted: dict[str, Any] = {
            **form.wanted(),
            "rules": rules.wanted_rules(),
            **_by(request),
        }
        saved = policies.change(form.instance.pk, **wanted) if change else policies.create(**wanted)
        form.instance.pk = saved.policy.pk
        for warning in saved.warnings:
            messages.warning(request, warning)

    def get_deleted_objects(
        self,
        objs: Iterable[ThrottlePolicy],
        request: HttpRequest,
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return the policies to delete, and the names of all jobs that prevent the deletion."""
        found = list(objs)
        in_use = [why for policy in found if (why := policies.why_in_use(policy))]
        return [policy.name for policy in found], {str(_("throttle policies")): len(found)}, set(), in_use

    def delete_model(self, request: HttpRequest, obj: ThrottlePolicy) -> None:
        try:
            policies.delete(obj.pk, **_by(request))
        except NotAllowed as refused:
            raise PermissionDenied(str(refused)) from None

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ThrottlePolicy]) -> None:
        for policy in queryset:
            try:
                policies.delete(policy.pk, **_by(request))
            except NotDone as refused:
                messages.warning(request, str(refused))

    # --- The list --------------------------------------------------------------------------------

    @admin.display(description=_("per host"))
    def limits(self, policy: ThrottlePolicy) -> str:
        gap = max(policy.min_gap, _gap(policy.starts, policy.period))
        return limits_in_words(Limits(policy.open_requests, gap, policy.bytes_per_second))

    @admin.display(description=_("total"))
    def in_total(self, policy: ThrottlePolicy) -> str:
        requests = policy.total_open_requests or UNLIMITED_REQUESTS
        gap = _gap(policy.total_starts, policy.total_period)
        return limits_in_words(Limits(requests, gap, policy.total_bytes_per_second))

    @admin.display(description=_("rules"))
    def rule_count(self, policy: ThrottlePolicy) -> str:
        return str(len(policy.rules.all()) or "—")

    @admin.display(description=_("scope"))
    def reach(self, policy: ThrottlePolicy) -> str:
        return str(_("every host") if policy.applies_everywhere else _("hosts of its seeds"))


def _gap(starts: int | None, period: str) -> float:
    return gap_of(starts, Period(period)) if starts else 0.0


def _shown(preview: Preview) -> dict[str, Any]:
    """Return the texts of a preview for its template."""
    note = _("(unchanged now, different at other times)")
    if preview.per_address_before != preview.per_address_after:
        note = _("(newly limited together with other hosts at its address)")
        if preview.per_address_before:
            note = _("(no longer limited together with other hosts at its address)")
    return {
        "facts": preview,
        "reaches": preview.reaches[:_RULES_SHOWN],
        "rules_left_out": len(preview.reaches[_RULES_SHOWN:]),
        "changes": [
            {
                "name": change.name,
                "before": limits_in_words(change.before),
                "after": limits_in_words(change.after),
                "in_force": limits_in_words(change.in_force_after),
                "is_without_effect": change.is_without_effect,
                "note": note if change.before == change.after else "",
                "documents": _documents(change.documents),
                "time_before": _time(change.seconds_before),
                "time_after": _time(change.seconds_after),
            }
            for change in preview.changes
        ],
        "total_before": limits_in_words(preview.total_before),
        "total_after": limits_in_words(preview.total_after),
        "total_changes": preview.total_before != preview.total_after,
    }


def _documents(number: int) -> str:
    most = formats.number(DOCUMENTS_COUNTED)
    return _("more than %(n)s") % {"n": most} if number > DOCUMENTS_COUNTED else formats.number(number)


def _time(seconds: float | None) -> str:
    return "—" if seconds is None else formats.duration(dt.timedelta(seconds=seconds))


def _by(request: HttpRequest) -> dict[str, Any]:
    return {"everywhere": request.user.has_perm(EVERYWHERE), "made_by": request.user.get_username()}
