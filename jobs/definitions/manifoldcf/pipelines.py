"""ManifoldCF's pipeline stages as outputs and stages."""

from collections.abc import Mapping
from typing import Any

from jobs.connectors.transformation.pipeline import SOURCE
from jobs.definitions.manifoldcf.nodes import Part
from jobs.definitions.manifoldcf.transformations import Transformation, convert_stage

Pipeline = dict[str, Any]


def convert_stages(part: Part, *, transformations: Mapping[str, Transformation]) -> tuple[list[str], Pipeline]:
    """
    Return the outputs of a job, and its pipeline, with the outputs by name.

    `transformations` has the transformation connections by name. A stage without an equivalent is left out, and the
    stages behind it follow the stage before it.
    """
    stages: list[dict[str, Any]] = []
    ends: dict[str, str] = {}
    # For each stage of ManifoldCF, by its id: the name of the stage of crawlctl that replaces it, or SOURCE.
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
        for kind, settings in convert_stage(given, connection, transformations.get(connection)):
            names = {stage["name"] for stage in stages} | {SOURCE}
            base = (description or connection)[:90]
            name = next(one for one in (base, *(f"{base} ({n})" for n in range(2, 60))) if one not in names)
            stages.append({"name": name, "kind": kind, "input": place, "settings": settings})
            place = name
        places[own] = place
        given.left()
    if not ends:
        part.note("The job has no output. Add one to its definition.")
    if not stages:
        return list(ends), {}
    last = stages[-1]["name"]
    outputs = {name: place for name, place in ends.items() if place != last}
    return list(ends), {"stages": stages, **({"outputs": outputs} if outputs else {})}
