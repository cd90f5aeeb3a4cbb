"""ManifoldCF's jobs as definitions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jobs.connectors.repository import registry
from jobs.definitions.manifoldcf.nodes import Part
from jobs.definitions.manifoldcf.pipelines import convert_stages
from jobs.definitions.manifoldcf.specifications import Converted, convert_feed, convert_files, convert_web
from jobs.definitions.manifoldcf.transformations import Transformation

_SPECIFICATIONS: Final[Mapping[str, Callable[[Part], Converted]]] = {
    "web": convert_web,
    "feed": convert_feed,
    "filesystem": convert_files,
}
_STARTS: Final = {
    "manual": "manual",
    "schedule window start": "window_begin",
    "schedule window anytime": "window_inside",
}
_KINDS: Final = {"scan once": "once", "continuous": "continuous"}
_HOP_MODES: Final = {"accurate": "accurate", "no delete": "no_delete", "never delete": "never_delete"}
_INTERVALS: Final = {
    "recrawl_interval": "recrawl_after",
    "max_recrawl_interval": "recrawl_at_most",
    "expiration_interval": "expire_after",
    "reseed_interval": "reseed_after",
}
_MILLISECONDS: Final = 1000
# Fields of a window, each with the number that crawlctl uses for the 0 of ManifoldCF. In ManifoldCF, the week begins
# with Sunday.
_WINDOW: Final = {
    "dayofmonth": ("days_of_month", 1),
    "monthofyear": ("months", 1),
    "year": ("years", 0),
    "hourofday": ("hours", 0),
    "minutesofhour": ("minutes", 0),
}
_SUNDAY: Final = 7


def convert_job(
    part: Part, *, connector: str, policy: str | None, transformations: Mapping[str, Transformation]
) -> tuple[dict[str, Any], Sequence[str]]:
    """
    Return the definition of a job of this connector, and the directories that its connection must be able to read.

    `transformations` has the transformation connections by name.
    """
    part.take("id")
    name, repository = part.take_one("description"), part.take_one("repository_connection")
    found = [_SPECIFICATIONS[connector](given) for given in part.take("document_specification")]
    converted = found[0] if found else Converted()
    seed = {"urls": converted.seeds, **({"policy": policy} if policy else {})}
    if not converted.seeds:
        part.note("The job has no seeds. Add them to its definition.")
    kind = _word(part, "run_mode", _KINDS, "once")
    outputs, pipeline = convert_stages(part, transformations=transformations)
    definition = {
        "definition": "job",
        "name": name,
        "repository": repository,
        "outputs": outputs,
        "seeds": [seed],
        "specification": converted.specification,
        **({"pipeline": pipeline} if pipeline else {}),
        "priority": _number(part, "priority", 5),
        "kind": kind,
        **_intervals(part, is_continuous=kind == "continuous"),
        "hop_mode": _word(part, "hopcount_mode", _HOP_MODES, "accurate"),
        "hop_limits": _hop_limits(part, connector),
        "start_method": _word(part, "start_mode", _STARTS, "manual"),
        "windows": [_window(given) for given in part.take("schedule")],
    }
    if converted.tokens:
        definition["access_rules"] = [{"pattern": ".", "allow": converted.tokens}]
    if definition["start_method"] != "manual" and not definition["windows"]:
        part.note("The job has a start by schedule and no schedule, so it is started by hand.")
        definition["start_method"] = "manual"
    for forced in part.take("forcedparam"):
        forced.refuse("crawlctl adds no forced metadata.")
    for notified in part.take("notificationstage"):
        notified.refuse("Notifications are rules for all jobs. Add a rule.")
    part.left()
    return definition, converted.roots


def _word(part: Part, name: str, known: Mapping[str, str], usual: str) -> str:
    said = part.take_one(name).lower()
    if said and said not in known:
        part.note(f"{name} {said!r} is unknown. {usual} takes its place.")
    return known.get(said, usual)


def _number(part: Part, name: str, usual: int) -> int:
    said = part.take_one(name)
    if said and not (said.isascii() and said.isdigit()):
        part.note(f"{name} {said!r} is not a number. {usual} takes its place.")
        return usual
    return int(said or usual)


def _intervals(part: Part, *, is_continuous: bool) -> dict[str, float]:
    """Return the intervals in seconds. As in ManifoldCF, only a continuous job applies them."""
    intervals = {}
    for theirs, ours in _INTERVALS.items():
        seconds = _seconds(part, theirs)
        if seconds is not None and is_continuous:
            intervals[ours] = seconds
    if "recrawl_after" not in intervals:
        intervals.pop("recrawl_at_most", None)
    return intervals


def _seconds(part: Part, name: str) -> float | None:
    said = part.take_one(name)
    if said in {"", "infinite"}:
        return None
    if not (said.isascii() and said.isdigit()) or int(said) == 0:
        part.note(f"{name} {said!r} is not a number of milliseconds.")
        return None
    seconds = int(said) / _MILLISECONDS
    return int(seconds) if seconds.is_integer() else seconds


def _hop_limits(part: Part, connector: str) -> dict[str, int]:
    limits = {}
    for given in part.take("hopcount"):
        link_type, count = given.take_one("link_type"), _number(given, "count", 0)
        if link_type in registry.find(connector).link_types:
            limits[link_type] = count
        else:
            given.note(f"The connector has no links of type {link_type!r}.")
        given.left()
    return limits


def _window(given: Part) -> dict[str, Any]:
    window: dict[str, Any] = {}
    days = sorted(day or _SUNDAY for day in _values(given, "dayofweek"))
    if days:
        window["days_of_week"] = days
    for theirs, (ours, first) in _WINDOW.items():
        numbers = [number + first for number in _values(given, theirs)]
        if numbers:
            window[ours] = numbers
    zone, duration = given.take_one("timezone"), _seconds(given, "duration")
    if zone:
        window["time_zone"] = zone
    else:
        given.note("It has no time zone, so UTC applies.")
    if duration is not None:
        window["duration"] = duration
    if given.take_one("requestminimum") == "true":
        window["minimal"] = True
    given.left()
    return window


def _values(given: Part, name: str) -> list[int]:
    numbers = []
    for enumeration in given.take(name):
        for value in enumeration.take("value"):
            text = value.take_text().strip()
            if text.isascii() and text.isdigit():
                numbers.append(int(text))
            else:
                value.note(f"{text!r} is not a number.")
        enumeration.left()
    return sorted(set(numbers))
