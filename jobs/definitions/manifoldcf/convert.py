"""The conversion of files from ManifoldCF: connections first, so that jobs know their kind and policy."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jobs.definitions.manifoldcf.connections import convert_output, convert_repository
from jobs.definitions.manifoldcf.jobs import convert_job
from jobs.definitions.manifoldcf.nodes import Note, Part, parts_of
from jobs.definitions.manifoldcf.transformations import Transformation, read_transformation

_REPOSITORY: Final = "repositoryconnection"
_OUTPUT: Final = "outputconnection"
_TRANSFORMATION: Final = "transformationconnection"
_JOB: Final = "job"

Definition = dict[str, Any]


@dataclass(slots=True)
class Conversion:
    """Definitions in the order of an import, each with the place of its source, and notes."""

    definitions: list[tuple[str, Definition]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def convert(files: Iterable[tuple[str, object]], *, connector_of: Callable[[str], str | None]) -> Conversion:
    """
    Return the definitions of files, given as name and JSON.

    `connector_of` returns the connector of a stored repository, for a job whose connection is not in the files.
    """
    conversion = Conversion()
    parts = [part for file, body in files for part in _parts_of(file, body, conversion.notes)]
    policies: list[tuple[str, Definition]] = []
    repositories: dict[str, tuple[str, Definition]] = {}
    outputs: list[tuple[str, Definition]] = []
    transformations: dict[str, Transformation] = {}
    for part in parts:
        if part.kind == _TRANSFORMATION:
            name, transformation = read_transformation(part)
            transformations[name] = transformation
        elif part.kind == _REPOSITORY:
            repository, policy = convert_repository(part)
            if repository is not None:
                repositories[repository["name"]] = (part.place, repository)
            if policy is not None:
                policies.append((part.place, policy))
        elif part.kind == _OUTPUT:
            outputs.append((part.place, convert_output(part)))
    named = {policy["name"] for _, policy in policies}
    jobs = list(_jobs(parts, repositories, named, transformations, connector_of=connector_of))
    conversion.definitions = [*policies, *_readable(repositories, conversion.notes), *outputs, *jobs]
    return conversion


def _parts_of(file: str, body: object, notes: list[Note]) -> Iterator[Part]:
    """Yield the objects of a file: `{"job": …}`, a list of these, or several in one object."""
    for number, one in enumerate(body if isinstance(body, list) else [body]):
        place = f"{file}: [{number}]." if isinstance(body, list) else f"{file}: "
        if not isinstance(one, Mapping):
            notes.append(Note(place.rstrip(":. "), "This is not an object of ManifoldCF."))
            continue
        for kind, inner in one.items():
            if kind in {_REPOSITORY, _OUTPUT, _TRANSFORMATION, _JOB}:
                yield from parts_of(inner, kind=kind, place=f"{place}{kind}", notes=notes)
            else:
                notes.append(
                    Note(
                        f"{place}{kind}",
                        "Only connections to repositories, outputs and transformations, and jobs are converted.",
                    )
                )


def _jobs(
    parts: Iterable[Part],
    repositories: Mapping[str, tuple[str, Definition]],
    policies: set[str],
    transformations: Mapping[str, Transformation],
    *,
    connector_of: Callable[[str], str | None],
) -> Iterator[tuple[str, Definition]]:
    taken: set[str] = set()
    for part in parts:
        if part.kind != _JOB:
            continue
        connection = next((child.text.strip() for child in part.children if child.kind == "repository_connection"), "")
        known = repositories.get(connection)
        connector = known[1]["connector"] if known else connector_of(connection)
        if connector not in {"web", "feed", "filesystem"}:
            part.refuse(f"Its connection {connection!r} is not among the files, or has no connector here.")
            continue
        definition, roots = convert_job(
            part,
            connector=connector,
            policy=connection if connection in policies else None,
            transformations=transformations,
        )
        if known is not None and roots:
            configuration = known[1].setdefault("configuration", {})
            configuration["roots"] = sorted({*configuration.get("roots", ()), *roots})
        definition["name"] = _unique(definition["name"], taken, part)
        yield part.place, definition


def _readable(
    repositories: Mapping[str, tuple[str, Definition]], notes: list[Note]
) -> Iterator[tuple[str, Definition]]:
    """Yield the repositories. A repository of files gets the start points of its jobs as roots."""
    for place, repository in repositories.values():
        if repository["connector"] == "filesystem" and "configuration" not in repository:
            notes.append(
                Note(place, "No job names a start point, so the connection could read nothing. It is left out.")
            )
        else:
            yield place, repository


def _unique(name: str, taken: set[str], part: Part) -> str:
    """Return the name, with a number if another job has it: ManifoldCF's descriptions may repeat."""
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name} ({number})", number + 1
    if unique != name:
        part.note(f"Another job has the description {name!r}. This one becomes {unique!r}.")
    taken.add(unique)
    return unique
