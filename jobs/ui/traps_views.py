"""The pages of suspects, which may be traps: their list, and one suspect with a test of the possible rules."""

import datetime as dt
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from jobs.lifecycle.job import Phase
from jobs.models import Job, RuleKind, RuleState, TrapDecision, TrapSuspect
from jobs.partitions.this_partition import address_in, key_in
from jobs.queries.few_choices import offer_few
from jobs.queries.traps import EXAMINED, RuleTest, SuspectKey, check_rule, find_suspects, list_suspects_everywhere
from jobs.traps.quarantine import TRAP
from jobs.ui.job_rows import documents_address
from jobs.ui.pages import page
from jobs.ui.partitions_views import silent_partitions
from jobs.verbs import traps
from jobs.verbs.trap_rules import Effect
from nodes.database.clock import read_clock
from nodes.errors import NotAllowed, NotDone
from nodes.web import formats
from nodes.web.filters import FilterForm
from nodes.web.pages import user_with_permission
from nodes.web.screens import Record

# Largest number of suspects on a page.
_SHOWN: Final = 100
_DECISIONS: Final = {
    TrapDecision.OPEN: gettext_lazy("open"),
    TrapDecision.ACCEPTED: gettext_lazy("accepted"),
    TrapDecision.RELEASED: gettext_lazy("released"),
}
# Sentences about a change of the rule at the end of a run, by the state of the rule.
_AT_THE_END: Final = {
    RuleState.WAITS: gettext_lazy(
        "The job runs: it holds this group back now, and gets the rule when the run ends or is stopped."
    ),
    RuleState.LEAVES: gettext_lazy("The job runs with the rule, and loses it when the run ends or is stopped."),
}
_UNDONE: Final = {
    Effect.SUSPECTED: gettext_lazy("The release is undone. The group is suspected again."),
    Effect.WITHDRAWN: gettext_lazy("The acceptance is undone, before the job got the rule."),
    Effect.REMOVED: gettext_lazy("The acceptance is undone, and the rule is removed from the job."),
    Effect.LEAVES: gettext_lazy("The acceptance is undone. The job runs, and loses the rule when the run ends."),
    Effect.KEPT: gettext_lazy("The acceptance is undone. The job had the rule before, and keeps it."),
    Effect.MISSING: gettext_lazy("The acceptance is undone. The job no longer had the rule, so nothing was removed."),
}
_TONES: Final = {TrapDecision.OPEN: "failed", TrapDecision.ACCEPTED: "indexed", TrapDecision.RELEASED: "quiet"}


class TrapFilterForm(FilterForm):
    """The filters of the list of suspects, as parameters of its address."""

    job = forms.ModelChoiceField(
        Job.objects.all(), required=False, label=gettext_lazy("Job"), empty_label=gettext_lazy("all jobs")
    )
    host = forms.CharField(required=False, max_length=300, label=gettext_lazy("Host"), strip=True)
    decision = forms.ChoiceField(
        choices=[("", gettext_lazy("all")), *((one.value, said) for one, said in _DECISIONS.items())],
        required=False,
        label=gettext_lazy("Decision"),
    )
    after = forms.RegexField(r"^[0-9]{1,18}$", required=False, widget=forms.HiddenInput)
    partition = forms.CharField(required=False, max_length=63, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_few(self.fields["job"], chosen=[self.data.get("job", "")])  # type: ignore[arg-type]  # a choice of rows

    def as_query(self) -> dict[str, str]:
        """Return the filters that are set, for the address of another page of the same list."""
        wanted = self.cleaned_data
        job = str(wanted["job"].pk) if wanted["job"] else ""
        values = {"job": job, "host": wanted["host"], "decision": wanted["decision"]}
        return {name: value for name, value in values.items() if value}


@page
@require_safe
def suspects(request: HttpRequest) -> HttpResponse:
    """List suspects, the newest first."""
    form = TrapFilterForm(request.GET)
    context: dict[str, Any] = {"form": form, "rows": []}
    if form.is_valid():
        wanted, now = form.cleaned_data, read_clock()
        found = list_suspects_everywhere(
            job_id=wanted["job"].pk if wanted["job"] else None,
            host=wanted["host"],
            decision=wanted["decision"],
            after=SuspectKey(int(wanted["after"]), wanted["partition"]) if wanted["after"] else None,
            most=_SHOWN,
        )
        context["rows"] = [_row(one.line, partition=one.partition, now=now) for one in found.lines]
        context["silent"] = silent_partitions(found.silent, now=now)
        if found.next_key is not None:
            partition = {"partition": found.next_key.partition} if found.next_key.partition else {}
            context["next_query"] = urlencode({**form.as_query(), "after": str(found.next_key.id), **partition})
        context["first_query"] = urlencode(form.as_query()) or "all" if wanted["after"] else ""
    return render(request, "ui/traps.html", context)


@page
@require_safe
def suspect(request: HttpRequest, suspect_id: int) -> HttpResponse:
    """Show a suspect, and the effect of each rule that the job could get for it."""
    found = find_suspects().filter(pk=suspect_id).first()
    if found is None:
        raise Http404(_("Suspect %(id)d does not exist.") % {"id": suspect_id})
    kinds = [RuleKind.DROP_PARAMETER, RuleKind.EXCLUDE] if found.parameter else [RuleKind.EXCLUDE]
    context = {
        "row": _row(found, now=read_clock()),
        "suspect": found,
        "rules": [_rule(kind, check_rule(found, rule=kind)) for kind in kinds] if found.is_open else [],
        "most": formats.number(EXAMINED),
        "runs": found.is_open and found.job.phase != Phase.INACTIVE,
        "may_undo": not found.is_open and request.user.has_perm(traps.permission_to_undo(found)),
    }
    return render(request, "ui/trap.html", context)


@page
@require_POST
def accept(request: HttpRequest, suspect_id: int) -> HttpResponse:
    """Give the job the rule of a suspect."""
    name = user_with_permission(request, traps.MAY_ACCEPT)
    rule, confirm = request.POST.get("rule", ""), "confirm" in request.POST
    try:
        accepted = traps.accept(suspect_id, rule=rule, confirm=confirm, made_by=name, now=read_clock())
    except NotDone as refused:
        messages.warning(request, str(refused))
    else:
        said = _AT_THE_END.get(
            RuleState(accepted.rule_state), _("The job has the rule. It applies from the next run on.")
        )
        messages.success(request, said)
    return redirect("trap", suspect_id)


@page
@require_POST
def release(request: HttpRequest, suspect_id: int) -> HttpResponse:
    """Release a suspect."""
    name = user_with_permission(request, traps.MAY_RELEASE)
    try:
        released = traps.release(suspect_id, made_by=name, now=read_clock())
    except NotDone as refused:
        messages.warning(request, str(refused))
    else:
        said = _("The suspect is released. Documents that are due again: %(n)s.")
        messages.success(request, said % {"n": formats.number(released.sent.documents)})
    return redirect("trap", suspect_id)


@page
@require_POST
def undo(request: HttpRequest, suspect_id: int) -> HttpResponse:
    """Undo the decision about a suspect."""
    name = user_with_permission(request, traps.MAY_RELEASE)
    user: Any = request.user
    try:
        undone = traps.undo(suspect_id, may=user.has_perm, made_by=name, now=read_clock())
    except NotAllowed as refused:
        raise PermissionDenied(str(refused)) from refused
    except NotDone as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(request, _UNDONE[undone.effect])
    return redirect("trap", suspect_id)


def _row(one: TrapSuspect, *, partition: str = "", now: dt.datetime) -> Record:
    """Return the row of a suspect. `partition` is the partition that has it, "" for this one."""
    decision = TrapDecision(one.decision)
    return {
        "key": key_in(partition, one.pk),
        "address": address_in(partition, reverse("trap", args=[one.pk])),
        "partition": partition,
        "template": one.template,
        "host": one.host,
        "job": one.job.name,
        "job_address": reverse("job", args=[one.job.pk]),
        "fetched": formats.number(one.fetched),
        "new": formats.number(one.new),
        "share": formats.share(one.new, one.fetched),
        "bytes": formats.size(one.bytes),
        "held": formats.number(one.held),
        "held_address": documents_address(job=one.job.pk, host=one.host, code=TRAP) if one.held else "",
        "since": formats.moment(one.suspected_at, now=now),
        "decision": _DECISIONS[decision],
        "tone": _TONES[decision],
        "at_the_end": _AT_THE_END.get(RuleState(one.rule_state), ""),
        "decided": formats.moment(one.decided_at, now=now) if one.decided_at else "",
    }


def _rule(kind: RuleKind, tested: RuleTest) -> Record:
    return {
        "kind": kind.value,
        "says": _("Follow links without the parameter")
        if kind == RuleKind.DROP_PARAMETER
        else _("Exclude the addresses"),
        "rule": tested.rule,
        "examined": formats.number(tested.examined),
        "matched": formats.number(tested.matched),
        "good": formats.number(tested.good),
        "has_good": tested.good > 0,
        "examples": tested.examples,
        "is_whole": tested.is_whole,
    }
