"""
A job's pipeline as a value: the tree of stages between its source and its outputs.

It is stored as one JSON object. `stages` is a list, and each stage has a name, a kind, its settings and its input: the
source, or a stage above it in the list. So there are no circles. Without an input, a stage follows the one above it.
`outputs` names the stage that feeds an output, by the id of the output. Other outputs follow the last stage.

    {"stages": [{"name": "short", "kind": "allowed", "settings": {"max_bytes": 1000}, "input": "source"}],
     "outputs": {"7": "source"}}

A job without stages has the value {}.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jobs.connectors.transformation import registry

SOURCE: Final = "source"
STAGES: Final = "stages"
OUTPUTS: Final = "outputs"
# Largest number of stages of one job.
MOST_STAGES: Final = 50
_MOST_NAME: Final = 100
_KEYS: Final = ("name", "kind", "settings", "input")


@dataclass(frozen=True, slots=True)
class StageWanted:
    """A stage as it is stored."""

    name: str
    kind: str
    settings: Mapping[str, Any]
    input: str

    def stored(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "input": self.input, "settings": dict(self.settings)}


@dataclass(frozen=True, slots=True)
class PipelineWanted:
    """A pipeline as it is stored. `outputs` has the inputs of those outputs that do not follow the last stage."""

    stages: tuple[StageWanted, ...] = ()
    outputs: Mapping[int, str] = field(default_factory=dict)

    @property
    def end(self) -> str:
        """Return the stage that feeds outputs without a named input."""
        return self.stages[-1].name if self.stages else SOURCE

    def input_of(self, output: int) -> str:
        return self.outputs.get(output, self.end)

    def path_to(self, output: int) -> list[StageWanted]:
        """Return the stages between the source and an output, in order."""
        by_name = {stage.name: stage for stage in self.stages}
        path, name = [], self.input_of(output)
        while name in by_name:
            path.append(by_name[name])
            name = by_name[name].input
        return path[::-1]

    def facts(self) -> dict[str, Any]:
        """Return the stages and outputs by name, for a comparison with another pipeline."""
        stages = {stage.name: {"kind": stage.kind, "input": stage.input, **stage.settings} for stage in self.stages}
        return {**stages, OUTPUTS: {str(output): name for output, name in self.outputs.items()}}

    def shown(self) -> dict[str, Any]:
        """Return the JSON value for people and programs, also without stages."""
        return {STAGES: [], OUTPUTS: {}, **self.stored()}

    def for_outputs(self, outputs: Collection[int]) -> "PipelineWanted":
        """Return the pipeline without entries for other outputs than these, which the job has."""
        return PipelineWanted(self.stages, {output: name for output, name in self.outputs.items() if output in outputs})

    def stored(self) -> dict[str, Any]:
        """Return the JSON value, with an input for each stage; {} without stages."""
        if not self.stages:
            return {}
        outputs = {str(output): name for output, name in sorted(self.outputs.items()) if name != self.end}
        return {STAGES: [stage.stored() for stage in self.stages], OUTPUTS: outputs}


NO_PIPELINE: Final = PipelineWanted()


def read_pipeline(stored: Mapping[str, Any]) -> PipelineWanted:
    """Return the pipeline of a JSON value in which `problems_of` has found no problem."""
    stages: list[StageWanted] = []
    for given in stored.get(STAGES, ()):
        before = stages[-1].name if stages else SOURCE
        stages.append(
            StageWanted(given["name"].strip(), given["kind"], given.get("settings") or {}, given.get("input") or before)
        )
    outputs = {int(output): name for output, name in (stored.get(OUTPUTS) or {}).items()} if stages else {}
    return PipelineWanted(tuple(stages), outputs)


def problems_of(given: object, *, outputs: Collection[int]) -> dict[str, list[str]]:
    """Return the problems of a given pipeline, by field: `stages.0.name`, `stages.0.settings.max_bytes`, `outputs.7`."""
    if not isinstance(given, Mapping):
        return {"": ["A pipeline is an object with the keys `stages` and `outputs`."]}
    problems: dict[str, list[str]] = {
        str(key): ["Unknown key. A pipeline has `stages` and `outputs`."]
        for key in given
        if key not in {STAGES, OUTPUTS}
    }
    stages = given.get(STAGES, [])
    if not isinstance(stages, list | tuple):
        return {**problems, STAGES: ["The stages are a list."]}
    if len(stages) > MOST_STAGES:
        return {**problems, STAGES: [f"A pipeline has at most {MOST_STAGES} stages."]}
    names = [SOURCE]
    for number, stage in enumerate(stages):
        found = _problems_of_stage(stage, above=names)
        problems.update((f"{STAGES}.{number}{f'.{name}' if name else ''}", said) for name, said in found.items())
        if isinstance(stage, Mapping) and isinstance(stage.get("name"), str):
            names.append(stage["name"].strip())
    ends = given.get(OUTPUTS) or {}
    if not isinstance(ends, Mapping):
        return {**problems, OUTPUTS: ["The outputs are an object: the stage of an output by the output."]}
    known = {str(output) for output in outputs}
    for output, name in ends.items():
        if str(output) not in known:
            problems[f"{OUTPUTS}.{output}"] = ["The job has no such output."]
        elif name not in names:
            problems[f"{OUTPUTS}.{output}"] = [f"There is no stage {name!r}. Choose one of {', '.join(names)}."]
    return problems


def _problems_of_stage(stage: object, *, above: Sequence[str]) -> dict[str, list[str]]:
    """Return the problems of a stage, by field. `above` are the names to which it can refer."""
    if not isinstance(stage, Mapping):
        return {"": [f"A stage is an object with the keys {', '.join(_KEYS)}."]}
    problems = {str(key): [f"Unknown key. A stage has {', '.join(_KEYS)}."] for key in stage if key not in _KEYS}
    name = stage.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
        problems["name"] = [f"The name of a stage needs 1 to {_MOST_NAME} printable characters."]
    elif name.strip() in above:
        problems["name"] = [f"The name {name.strip()!r} is taken. Choose another one."]
    before = stage.get("input")
    if before not in (None, "") and before not in above:
        problems["input"] = [f"No stage above has the name {before!r}. Choose one of {', '.join(above)}."]
    kind = registry.installed().get(stage["kind"]) if isinstance(stage.get("kind"), str) else None
    if kind is None:
        problems["kind"] = [f"There is no such kind. Choose one of {', '.join(registry.installed())}."]
        return problems
    for field_, said in kind.check(stage.get("settings") or {}).items():
        problems[f"settings.{field_}" if field_ else "settings"] = said
    return problems


def missing_kinds(stored: Mapping[str, Any]) -> list[str]:
    """Return the kinds of a stored pipeline that are not installed here."""
    known = registry.installed()
    return sorted({stage.kind for stage in read_pipeline(stored).stages if stage.kind not in known})
