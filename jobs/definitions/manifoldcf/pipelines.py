"""ManifoldCF's pipeline stages as outputs and stages."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from jobs.connectors.transformation import registry
from jobs.connectors.transformation.pipeline import SOURCE
from jobs.definitions.manifoldcf.nodes import Part

_PACKAGE: Final = "org.apache.manifoldcf.agents.transformation."
# The value of a filter that lets everything pass.
_ALL: Final = "*"

Pipeline = dict[str, Any]


def convert_stages(part: Part, *, transformations: Mapping[str, str]) -> tuple[list[str], Pipeline]:
    """
    Return the outputs of a job, and its pipeline, with the outputs by name.

    `transformations` has the class of each transformation connection. A stage without an equivalent is left out, and the
    stages behind it follow the stage before it.
    """
    stages: list[dict[str, Any]] = []
    ends: dict[str, str] = {}
    # The stage here for each of their stages.
    places: dict[str, str] = {"": SOURCE, "-1": SOURCE}
    for number, given in enumerate(part.take("pipelinestage")):
        connection, is_output = given.take_one("stage_connectionname"), given.take_one("stage_isoutput") == "true"
        own, before = given.take_one("stage_id") or str(number), given.take_one("stage_prerequisite")
        description = given.take_one("stage_description")
        place = places.get(before, SOURCE)
        if is_output:
            for specification in given.take("stage_specification"):
                specification.refuse("Outputs have no settings of a job.")
            if connection in ends and ends[connection] != place:
                given.note("A job has each output once. The first stage of this output was taken.")
            ends.setdefault(connection, place)
            given.left()
            continue
        kind, settings = _convert(given, connection, transformations.get(connection, ""))
        if kind is None:
            places[own] = place
        else:
            names = {stage["name"] for stage in stages} | {SOURCE}
            base = (description or connection)[:90]
            name = next(one for one in (base, *(f"{base} ({n})" for n in range(2, 60))) if one not in names)
            stages.append({"name": name, "kind": kind, "input": place, "settings": settings})
            places[own] = name
        given.left()
    if not ends:
        part.note("The job has no output. Add one to its definition.")
    if not stages:
        return list(ends), {}
    last = stages[-1]["name"]
    outputs = {name: place for name, place in ends.items() if place != last}
    return list(ends), {"stages": stages, **({"outputs": outputs} if outputs else {})}


def _convert(given: Part, connection: str, class_name: str) -> tuple[str | None, dict[str, Any]]:
    """Return the kind and the settings of a stage; None if there is no such kind."""
    found = _KINDS.get(class_name.removeprefix(_PACKAGE))
    specifications = given.take("stage_specification")
    if found is None:
        given.note(
            f"crawlctl has no transformation {class_name}, so {connection} is left out."
            if class_name
            else f"The transformation connection {connection!r} is not among the files, so the stage is left out."
        )
        return None, {}
    kind, convert = found
    settings: dict[str, Any] = {}
    for specification in specifications:
        settings |= convert(specification)
        specification.left()
    for field, said in registry.find(kind).check(settings).items():
        given.note(f"{field} is left out: {' '.join(said)}")
        settings.pop(field, None)
    return kind, settings


def _allowed(part: Part) -> dict[str, Any]:
    """Return the settings of ManifoldCF's Allowed documents."""
    settings: dict[str, Any] = {}
    for theirs, ours in {"minlength": "min_bytes", "maxlength": "max_bytes"}.items():
        for given in part.take(theirs):
            said = given.take_attribute("value")
            if said.isascii() and said.isdigit():
                if int(said):
                    settings[ours] = int(said)
            elif said:
                given.note(f"{said!r} is not a number.")
    for given in part.take("mimetypes"):
        types = given.take_text().split()
        if types and _ALL not in types:
            settings["content_types"] = types
    for given in part.take("extensions"):
        extensions = given.take_text().split()
        if extensions and _ALL not in extensions:
            settings["include"] = [rf"(?i)\.({'|'.join(map(re.escape, extensions))})([?#]|$)"]
    return settings


def _metadata(part: Part) -> dict[str, Any]:
    """Return the settings of ManifoldCF's Metadata adjuster."""
    renamed, set_, removed = [], [], []
    for given in part.take("fieldmap"):
        source, target = given.take_attribute("source"), given.take_attribute("target")
        if target:
            renamed.append(f"{source} = {target}")
        else:
            removed.append(source)
    for kind in ("expression", "pair"):
        for given in part.take(kind):
            name, value = given.take_attribute("parameter"), given.take_attribute("value")
            if value:
                set_.append(f"{name} = {value}")
            else:
                removed.append(name)
    keeps_all = [given.take_attribute("value") for given in part.take("keepAllMetadata")]
    # Values without a text are never kept here.
    for given in part.take("filterEmpty"):
        given.take_attribute("value")
    kept = []
    if keeps_all and keeps_all[0] == "false":
        kept = [line.partition(" = ")[2] for line in renamed] + [line.partition(" = ")[0] for line in set_]
        if not kept:
            part.note("Without a name to keep, the stage keeps all metadata.")
    found = {"rename": renamed, "set": set_, "remove": removed, "keep": kept}
    return {name: values for name, values in found.items() if values}


def _nothing(_part: Part) -> dict[str, Any]:
    return {}


_KINDS: Final[Mapping[str, tuple[str, Callable[[Part], dict[str, Any]]]]] = {
    "documentfilter.DocumentFilter": ("allowed", _allowed),
    "forcedmetadata.ForcedMetadataConnector": ("metadata", _metadata),
    "nullconnector.NullConnector": ("null", _nothing),
}
