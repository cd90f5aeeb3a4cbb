"""A job's kind, intervals, hop limits and schedule, as the API shows and accepts them."""

from typing import Any, Final

from rest_framework import serializers

from jobs.api.fields import ObjectField, SecondsField
from jobs.archive.records import Format
from jobs.checks.job_options import GUARD, INTERVALS, MOST_VERSIONS, MOST_WINDOWS
from jobs.connectors.repository.access_rules import LONGEST_TOKEN, MOST_RULES, MOST_TOKENS
from jobs.connectors.repository.freshness_goals import LONGEST, MOST_GOALS, SHORTEST
from jobs.lifecycle.job import HopMode, Kind, StartMethod
from jobs.lifecycle.schedule import Window
from jobs.models.schedule import FIELDS
from nodes.api.strict import StrictSerializer

# The fields that `OptionsFields` adds to a job, in the order in which they are shown.
OPTION_FIELDS: Final = (
    "kind",
    *INTERVALS,
    "hop_mode",
    "hop_limits",
    *GUARD,
    "start_method",
    "windows",
    "archive",
    "kept_versions",
    "access_rules",
    "freshness_goals",
)


def _numbers(name: str, help_text: str) -> "serializers.ListField":
    least, most = FIELDS[name]
    return serializers.ListField(
        child=serializers.IntegerField(min_value=least, max_value=most),
        max_length=most - least + 1,
        default=list,
        help_text=help_text,
    )


class WindowSerializer(StrictSerializer):
    """A window opens when the clock of its time zone matches all its fields. An empty field matches any value."""

    days_of_week = _numbers("days_of_week", "1 is Monday, 7 Sunday.")
    days_of_month = _numbers("days_of_month", "From 1.")
    months = _numbers("months", "From 1.")
    years = _numbers("years", "")
    hours = _numbers("hours", "Hours of the opening. If empty, midnight, or every hour if minutes are given.")
    minutes = _numbers("minutes", "None: 0.")
    time_zone = serializers.CharField(default="UTC", max_length=60, help_text="Time zone, such as Europe/Berlin.")
    duration = SecondsField(
        allow_null=True,
        default=None,
        help_text="Duration in seconds. If null, the window starts the job and never pauses it.",
    )
    minimal = serializers.BooleanField(default=False, help_text="True if the runs that it starts are minimal.")


def _tokens(help_text: str) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(max_length=LONGEST_TOKEN, trim_whitespace=False),
        max_length=MOST_TOKENS,
        default=list,
        help_text=help_text,
    )


class AccessRuleSerializer(StrictSerializer):
    """Access of the documents that match a pattern. Without tokens, all users see them."""

    pattern = serializers.CharField(trim_whitespace=False, help_text="Regular expression (RE2) for identifiers.")
    allow = _tokens("Tokens of the source's authority group that may see the documents.")
    deny = _tokens("Tokens that may not, even if another token may.")


class FreshnessGoalSerializer(StrictSerializer):
    """A share of the documents that match a pattern must be fresh within a time."""

    pattern = serializers.CharField(trim_whitespace=False, help_text="Regular expression (RE2) for identifiers.")
    percent = serializers.FloatField(max_value=100, help_text="Share of the documents, greater than 0.")
    within = serializers.FloatField(
        min_value=SHORTEST, max_value=LONGEST, help_text="Seconds after which an unseen change is too old."
    )


def _interval(help_text: str) -> SecondsField:
    return SecondsField(
        allow_null=True, default=None, help_text=f"For continuous jobs, in seconds. If null, {help_text}"
    )


def _percent(default: int, help_text: str) -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0, max_value=100, allow_null=True, default=default, help_text=help_text)


class OptionsFields(serializers.Serializer[Any]):
    """The optional fields of a job, such as its schedule, its intervals and its hop limits."""

    kind = serializers.ChoiceField(
        [kind.value for kind in Kind],
        default=Kind.ONCE,
        help_text="A run of `once` ends. A `continuous` job keeps recrawling.",
    )
    recrawl_after = _interval("documents are not crawled again.")
    recrawl_at_most = _interval("the interval has no upper bound.")
    expire_after = _interval(
        "documents do not expire. The time counts from the last processing, or from the date in a feed or file."
    )
    reseed_after = _interval("seeds are read once per run.")
    hop_mode = serializers.ChoiceField([mode.value for mode in HopMode], default=HopMode.ACCURATE)
    hop_limits = ObjectField(default=dict, help_text="Maximum hops from a seed, by link type.")
    guard_percent = _percent(
        5, "The clean-up of a run waits for approval above this share of the job's documents; null: never."
    )
    guard_host_percent = _percent(
        50, "The clean-up also waits above this share of the job's documents on one host; null: hosts do not count."
    )
    guard_documents = serializers.IntegerField(
        min_value=0,
        max_value=2**31 - 1,
        default=20,
        help_text="Both shares count only if more documents than this would be removed, from the job or from the host.",
    )
    guard_seeds = serializers.BooleanField(
        default=True,
        help_text="The clean-up also waits if a seed answers 404 or the like, or lost its links and takes most of its host or of the job along.",
    )
    start_method = serializers.ChoiceField(
        [method.value for method in StartMethod], default=StartMethod.MANUAL, help_text="Effect of the windows."
    )
    archive = serializers.ChoiceField(
        [("", "no archive"), *((one.value, one.name) for one in Format)],
        default="",
        allow_blank=True,
        help_text="Format in which raw requests and responses of web sources are kept; empty: none are kept.",
    )
    kept_versions = serializers.IntegerField(
        min_value=0,
        max_value=MOST_VERSIONS,
        default=0,
        help_text="Number of versions of each document that are kept with their headers and texts; 0: none.",
    )
    access_rules: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=AccessRuleSerializer(),
        default=list,
        max_length=MOST_RULES,
        help_text="The first rule that matches a document replaces the access that its source reports.",
    )
    freshness_goals: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=FreshnessGoalSerializer(),
        default=list,
        max_length=MOST_GOALS,
        help_text="Goals of a continuous job. The first goal that matches a document decides how often it is read.",
    )
    windows: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=WindowSerializer(), default=list, max_length=MOST_WINDOWS
    )

    def validate_windows(self, windows: list[dict[str, Any]]) -> list[Window]:
        return [_window(said) for said in windows]

    def validate_freshness_goals(self, goals: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # In a PATCH of a job, each goal must be complete.
        wrong = {
            str(place): {name: ["This field is required."] for name in missing}
            for place, said in enumerate(goals)
            if (missing := {"pattern", "percent", "within"} - said.keys())
        }
        if wrong:
            raise serializers.ValidationError(wrong)
        return [dict(said) for said in goals]

    def validate_access_rules(self, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # In a PATCH of a job, each rule must be complete.
        problems = {
            str(place): {"pattern": ["This field is required."]}
            for place, said in enumerate(rules)
            if "pattern" not in said
        }
        if problems:
            raise serializers.ValidationError(problems)
        return [_rule(said) for said in rules]


def _rule(said: dict[str, Any]) -> dict[str, Any]:
    return {"pattern": said["pattern"], "allow": list(said.get("allow", ())), "deny": list(said.get("deny", ()))}


def _window(said: dict[str, Any]) -> Window:
    # In a PATCH of a job, each window is complete: a missing field has the default of a new window.
    numbers: dict[str, Any] = {name: tuple(sorted(set(said.get(name, ())))) for name in FIELDS}
    others = {name: value for name, value in said.items() if name not in FIELDS}
    return Window(**numbers, **others)
