"""
The form of a new job: three fields first, everything else below “More”.

The three fields are the address, the pace and the times. Everything else has a default: the name is that of the first
host, and connections that do not exist yet are stored with the job.
"""

import datetime as dt
from functools import cache
from typing import Any, ClassVar, Final, cast
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from jobs.admin.connector_form import Lines
from jobs.admin.job_form import FirstSeed, JobForm
from jobs.admin.job_option_fields import OPTION_FIELDS
from jobs.connectors.transformation.pipeline import problems_of, read_pipeline
from jobs.forms.pipeline import PipelineForm
from jobs.lifecycle.job import StartMethod
from jobs.lifecycle.schedule import Window
from jobs.lifecycle.simple_times import Every, window_every
from jobs.models import Job, OutputConnection, RepositoryConnection, ThrottlePolicy
from jobs.queries.few_choices import offer_few
from jobs.verbs.first_job import PACES, with_schemes

FIELDS: Final = ("addresses", "pace", "every", ("at", "weekday", "zone"))
_SHORT: Final = {"addresses", "pace", "every", "at", "weekday", "zone"}
# Fields that parameters in the address of the form may fill.
TYPED: Final = ("name", "addresses", "pace", "every", "at", "weekday", "zone")
# The value of `every` that leaves the times to the start method and the windows below “More”.
_AS_BELOW: Final = "windows"
_DAYS: Final = (_("Monday"), _("Tuesday"), _("Wednesday"), _("Thursday"), _("Friday"), _("Saturday"), _("Sunday"))
# Prefix of the value of a choice that is a policy. The id of the policy follows.
_POLICY: Final = "policy-"


@cache
def time_zones() -> tuple[str, ...]:
    """Return the sorted names of all time zones. Each zone is a file on the disk, so the names are read once."""
    return tuple(sorted(available_timezones()))


class TimesForm(forms.Form):
    """The fields of a new job's form that say when it starts. The preview of the next starts uses only these fields."""

    use_required_attribute = False

    every = forms.ChoiceField(
        label=_("When"),
        required=False,
        choices=[
            ("", _("when it is started by hand")),
            (Every.HOUR.value, _("every hour")),
            (Every.DAY.value, _("every day")),
            (Every.WEEK.value, _("every week")),
            (_AS_BELOW, _("as set under “More”")),
        ],
        widget=UnfoldAdminSelectWidget,
    )
    at = forms.TimeField(
        label=_("At"), required=False, initial=dt.time(2), widget=UnfoldAdminTextInputWidget(attrs={"type": "time"})
    )
    weekday = forms.TypedChoiceField(
        label=_("On"),
        required=False,
        coerce=int,
        empty_value=None,
        initial=1,
        choices=list(enumerate(_DAYS, start=1)),
        widget=UnfoldAdminSelectWidget,
    )
    zone = forms.CharField(
        label=_("Time zone"),
        required=False,
        initial="UTC",
        max_length=60,
        widget=UnfoldAdminTextInputWidget(attrs={"list": "zones"}),
    )

    def clean_zone(self) -> str:
        zone: str = self.cleaned_data["zone"] or "UTC"
        if zone not in time_zones():
            raise forms.ValidationError(
                _("“%(zone)s” is not a time zone. Write one like Europe/Berlin."), params={"zone": zone}
            )
        return zone

    def window(self) -> Window | None:
        """Return the window from the simple times of a valid form; None if the form does not use these."""
        values = self.cleaned_data
        if values.get("every") not in set(Every):
            return None
        return window_every(
            Every(values["every"]),
            at=values.get("at") or dt.time(2),
            weekday=values.get("weekday") or 1,
            time_zone=values.get("zone") or "UTC",
        )


class FirstJobForm(TimesForm, JobForm):
    """The form of a new job, which has the three short fields in addition to those of a stored job."""

    addresses = Lines(
        label=_("Address"),
        required=False,
        help_text=_("Where the crawl starts, one address per line, such as example.org. “https://” is added."),
    )
    pace = forms.ChoiceField(label=_("How fast"), required=False, widget=UnfoldAdminSelectWidget)

    class Media:
        js = (forms.Script("js/first_job.js", type="module"),)

    # The field has two lines, because most users enter one address.
    addresses.widget = UnfoldAdminTextareaWidget(attrs={"rows": 2, "placeholder": "example.org"})
    # Fields that have a default here.
    optional: ClassVar = {"name": None, "repository": RepositoryConnection, "outputs": OutputConnection}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, kind in self.optional.items():
            if kind is None or not kind.objects.exists():
                self.fields[name].required = False
        self.fields["name"].help_text = _("If empty, the host of the first address.")
        self.fields["pace"].choices = self._paces()  # type: ignore[attr-defined]  # a choice field
        self.stages = PipelineForm(
            read_pipeline(self.initial.get("pipeline") or {}),
            outputs=self._chosen_outputs(),
            data=self.data if isinstance(self.data, QueryDict) and self.is_bound else None,
        )
        if self.stages.was_asked_for_a_stage():
            self.stages.add_stage()

    @property
    def shows_more(self) -> bool:
        """True if “More” must be open, because a field in it has an error, or the form has a stage of a pipeline."""
        return bool(self.stages.stages) or not self.errors.keys() <= _SHORT

    def is_valid(self) -> bool:
        """False for a form that was sent to add a stage, so that the job is not stored."""
        return super().is_valid() and not self.stages.was_asked_for_a_stage()

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        addresses = with_schemes(values.get("addresses") or (), self.form_connector)  # type: ignore[arg-type]
        if not addresses and not self._has_seeds() and "addresses" not in self.errors:
            self.add_error("addresses", _("This field is required."))
        if not values.get("name") and "name" not in self.errors:
            values["name"] = self.instance.name = _free_name(_name_of(addresses))
        self.instance.first_seed = FirstSeed(tuple(addresses), values.get("pace", "").removeprefix(_POLICY))
        self._check_stages(values)
        return super().clean()

    def chosen_options(self) -> dict[str, Any]:
        options = super().chosen_options()
        window = self.window()
        if window is not None:
            options |= {"windows": [window], "start_method": StartMethod.WINDOW_BEGIN}
        return options | {"pipeline": self._pipeline}

    def _check_stages(self, values: dict[str, Any]) -> None:
        """Read the stages, and show their problems beside their fields."""
        self._pipeline: dict[str, Any] = {}
        if self.stages.was_asked_for_a_stage():
            return
        if self.stages.is_valid():
            chosen = {output.pk for output in values.get("outputs") or ()}
            said = self.stages.value()
            said["outputs"] = {output: stage for output, stage in said["outputs"].items() if int(output) in chosen}
            problems = problems_of(said, outputs=chosen)
            if not problems:
                self._pipeline = read_pipeline(said).stored()
                return
            self.stages.show(problems)
        self.add_error(None, _("A stage of the pipeline has an error. Check the stages below."))

    def _chosen_outputs(self) -> list[tuple[int, str]]:
        """
        Return the selected outputs if there are several, else an empty list: one output needs no question for the stage
        that it follows.
        """
        said = self.data.getlist("outputs") if isinstance(self.data, QueryDict) else self.initial.get("outputs", ())
        chosen = [int(key) for key in map(str, said) if key.isdecimal() and len(key) < 19]
        found = OutputConnection.objects.filter(pk__in=chosen).order_by("name").values_list("pk", "name")
        return list(found) if len(found) > 1 else []

    def _has_seeds(self) -> bool:
        return any(name.startswith("seeds-") and name.endswith("-urls") and value for name, value in self.data.items())

    def _paces(self) -> list[tuple[str, Any]]:
        of_policies = forms.ModelChoiceField(ThrottlePolicy.objects.filter(private_to=None), empty_label=None)
        chosen = str(self.data.get("pace") or self.initial.get("pace", ""))
        offer_few(of_policies, chosen=[chosen.removeprefix(_POLICY)])
        offered = cast(list[tuple[Any, Any]], of_policies.choices)
        # Some entries are headings of groups of choices. A heading has a list where a choice has its key.
        stored = [
            (f"{_POLICY}{key}", _("policy %(name)s") % {"name": label})
            for key, label in offered
            if not isinstance(label, list)
        ]
        paces = [(name, pace.label) for name, pace in PACES.items()]
        return [("", _("politely: one request a second to each host")), *paces, *stored]


def values_of(job: Job) -> dict[str, Any]:
    """
    Return the initial values of the form for a copy of this job. The short fields get only the first seed of this job.
    """
    seed = job.seeds.filter(removed_at=None).order_by("pk").first()
    windows = [window.times for window in job.windows.all()]
    return {
        **{name: getattr(job, name) for name in ("max_documents", "priority", *OPTION_FIELDS)},
        **{f"{JobForm.section}_{name}": value for name, value in job.specification.items()},
        "name": _free_name(job.name),
        "repository": job.repository_id,
        "outputs": list(job.outputs.values_list("pk", flat=True)),
        "addresses": seed.urls if seed else [],
        "pace": f"{_POLICY}{seed.policy_id}" if seed and seed.policy_id else "",
        "pipeline": job.pipeline,
        "every": _AS_BELOW if windows else "",
        "windows": windows,
    }


def _name_of(addresses: list[str]) -> str:
    if not addresses:
        return ""
    first = addresses[0]
    try:
        return urlsplit(first).netloc.rpartition("@")[2] or first.rstrip("/").rpartition("/")[2] or first
    except ValueError:
        return ""


def _free_name(name: str) -> str:
    """Return the name, with a number at its end if another job already has the name."""
    if not name:
        return name
    name = name[:190]
    taken = set(Job.objects.filter(name__startswith=name).values_list("name", flat=True)[:1_000])
    number = 2
    free = name
    while free in taken:
        free = f"{name} {number}"
        number += 1
    return free
