"""The four kinds of objects that definitions describe: how each is found, read, checked and written."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Prefetch, QuerySet
from rest_framework import serializers

from jobs.connectors.output import registry as outputs
from jobs.connectors.repository import registry as repositories
from jobs.connectors.schema import NOTHING, Schema
from jobs.definitions.serializers import JobDefinition, OutputDefinition, PolicyDefinition, RepositoryDefinition
from jobs.models import Job, OutputConnection, RepositoryConnection, Seed, ThrottlePolicy, ThrottleRule
from jobs.verbs import connections, editing, policies
from jobs.verbs.connection_checks import Kind
from jobs.verbs.seeds import SeedWanted
from nodes.errors import Invalid

_NOT_WRITTEN: Final = frozenset({"definition", "name", "left_out"})


@dataclass(frozen=True, slots=True)
class Author:
    """The author of an import. `everywhere` is true if the author may store policies that limit the whole cluster."""

    name: str
    everywhere: bool
    now: dt.datetime


@dataclass(slots=True)
class Context:
    """
    The state of an import: its author, and the definitions that had problems, by subject and name.

    `advice` is the sentence about an object that a definition names and that does not exist.
    """

    author: Author
    advice: str = "Add its definition to the import."
    failed: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Subject:
    """
    A kind of object. `held_in` is the field with the values of a connector.

    `schema` returns their schema for a definition, and `stored_schema` for a stored object. `write` stores a new object
    (None) or a changed one, and returns its id and warnings.
    """

    name: str
    model: type[Any]
    serializer: type[serializers.Serializer[Any]]
    order: Sequence[str]
    rows: Callable[[], QuerySet[Any]]
    write: Callable[[Any | None, dict[str, Any], Context], tuple[int, Sequence[str]]]
    held_in: str | None = None
    schema: Callable[[Mapping[str, Any]], Schema] = lambda _definition: NOTHING
    stored_schema: Callable[[Any], Schema] = lambda _stored: NOTHING

    def permission(self, verb: str) -> str:
        """Return the permission to view, add or change the objects."""
        return f"jobs.{verb}_{self.model._meta.model_name}"  # noqa: SLF001 (Django's own word)


# --- Policies --------------------------------------------------------------------------------------


def _policies() -> QuerySet[ThrottlePolicy]:
    return ThrottlePolicy.objects.prefetch_related(Prefetch("rules", ThrottleRule.objects.order_by("position")))


def _write_policy(stored: ThrottlePolicy | None, wanted: dict[str, Any], context: Context) -> tuple[int, Sequence[str]]:
    facts = {name: value for name, value in wanted.items() if name not in _NOT_WRITTEN}
    gap = policies.default_gap(unlimited=facts["unlimited"], starts=facts.get("starts"))
    facts.setdefault("min_gap", gap)
    author: dict[str, Any] = {"everywhere": context.author.everywhere, "made_by": context.author.name}
    if stored is None:
        saved = policies.create(name=wanted["name"], **facts, **author)
    else:
        saved = policies.change(stored.pk, name=wanted["name"], **facts, **author)
    return saved.policy.pk, saved.warnings


# --- Connections -----------------------------------------------------------------------------------


def _write_connection(model: Kind) -> Callable[..., tuple[int, Sequence[str]]]:
    def write(stored: Any | None, wanted: dict[str, Any], context: Context) -> tuple[int, Sequence[str]]:  # noqa: ANN401 (a connection)
        facts = {"configuration": wanted["configuration"], "made_by": context.author.name}
        if model is RepositoryConnection:
            facts["authority_group_id"] = _group_named(wanted["authority_group"])
        if stored is None:
            made = connections.create(model, name=wanted["name"], connector=wanted["connector"], **facts)
        else:
            made = connections.change(model, stored.pk, name=wanted["name"], **facts)
        return made.pk, ()

    return write


def _groups() -> Any:  # noqa: ANN401 (a model of an application beside this one)
    return RepositoryConnection._meta.get_field("authority_group").related_model  # noqa: SLF001 (Django's)


def make_groups(names: Iterable[str]) -> None:
    """Store the authority groups that are missing."""
    for name in names:
        _groups().objects.get_or_create(name=name)


def _group_named(name: str | None) -> int | None:
    """Return the id of an authority group, which must exist; None for no group."""
    if name is None:
        return None
    found: int | None = _groups().objects.filter(name=name).values_list("pk", flat=True).first()
    if found is None:
        raise Invalid(
            {"authority_group": [f"There is no authority group {name!r}. Add it on the page of authorities."]}
        )
    return found


def _of_repositories(connector: object) -> Schema:
    kind = repositories.installed().get(str(connector))
    return kind.configuration if kind else NOTHING


def _of_outputs(connector: object) -> Schema:
    kind = outputs.installed().get(str(connector))
    return kind.configuration if kind else NOTHING


# --- Jobs ------------------------------------------------------------------------------------------


def _jobs() -> QuerySet[Job]:
    seeds = Prefetch("seeds", Seed.objects.filter(removed_at=None).select_related("policy").order_by("pk"))
    return Job.objects.select_related("repository").prefetch_related("outputs", "windows", seeds)


def _of_jobs(connector: object) -> Schema:
    kind = repositories.installed().get(str(connector))
    return kind.specification if kind else NOTHING


def _connector_of(definition: Mapping[str, Any]) -> str | None:
    """
    Return the connector of the repository that the definition of a job names; None if there is no such repository.
    """
    name = definition.get("repository")
    if not isinstance(name, str):
        return None
    return RepositoryConnection.objects.filter(name=name).values_list("connector", flat=True).first()


def _write_job(stored: Job | None, wanted: dict[str, Any], context: Context) -> tuple[int, Sequence[str]]:
    facts = {name: value for name, value in wanted.items() if name not in _NOT_WRITTEN}
    names = _Names(context, job_id=stored.pk if stored else None)
    (repository,) = names.find("repository", RepositoryConnection, {"repository": facts.pop("repository")})
    found_outputs = names.find(
        "output", OutputConnection, {f"outputs.{place}": name for place, name in enumerate(facts.pop("outputs"))}
    )
    given = facts.pop("seeds")
    named = {f"seeds.{place}.policy": seed["policy"] for place, seed in enumerate(given)}
    found_policies = names.find("policy", ThrottlePolicy, named)
    if names.problems:
        raise Invalid(names.problems)
    seeds = [
        SeedWanted(urls=tuple(seed["urls"]), policy=policy, tag=seed["tag"])
        for seed, policy in zip(given, found_policies, strict=True)
    ]
    facts |= {"outputs": list(dict.fromkeys(found_outputs)), "seeds": seeds}
    facts["pipeline"] = _with_ids(facts["pipeline"], found_outputs)
    author: dict[str, Any] = {"made_by": context.author.name, "now": context.author.now}
    if stored is None:
        saved = editing.create_job(name=wanted["name"], repository=repository, **facts, **author)
    else:
        saved = editing.change_job(stored.pk, name=wanted["name"], **facts, **author)
    return saved.job.pk, saved.warnings


def _with_ids(pipeline: dict[str, Any], found: Sequence[OutputConnection]) -> dict[str, Any]:
    """
    Return a pipeline with the ids of outputs in place of their names. Unknown names stay, so that the check of the
    pipeline reports them.
    """
    ends = pipeline.get("outputs")
    if not isinstance(ends, Mapping):
        return pipeline
    numbers = {output.name: str(output.pk) for output in found}
    # An unknown name of digits must not be read as the number of another output.
    return {**pipeline, "outputs": {numbers.get(str(name), f"{name!r}"): stage for name, stage in ends.items()}}


@dataclass(slots=True)
class _Names:
    """Finds the objects that a job names. A policy that a one-shot made for itself serves its own job only."""

    context: Context
    job_id: int | None
    problems: dict[str, list[str]] = field(default_factory=dict)

    def find(self, subject: str, model: type[Any], named: Mapping[str, str | None]) -> list[Any]:
        """
        Return the objects of these names, in their order; None for a missing name, and for a name with a problem.
        `named` has the names by field.
        """
        rows = model._default_manager.filter(name__in={name for name in named.values() if name is not None})  # noqa: SLF001
        found = {row.name: row for row in rows if getattr(row, "private_to_id", None) in {None, self.job_id}}
        for place, name in named.items():
            if name is None or name in found:
                continue
            if (subject, name) in self.context.failed:
                said = f"The {subject} {name!r} of this import has problems."
            else:
                said = f"There is no {subject} {name!r}. {self.context.advice}"
            self.problems[place] = [said]
        return [found.get(name) if name is not None else None for name in named.values()]


POLICY: Final = Subject(
    "policy", ThrottlePolicy, PolicyDefinition, PolicyDefinition.Meta.fields, _policies, _write_policy
)
REPOSITORY: Final = Subject(
    "repository",
    RepositoryConnection,
    RepositoryDefinition,
    RepositoryDefinition.FIELDS,
    RepositoryConnection.objects.select_related("authority_group").all,
    _write_connection(RepositoryConnection),
    "configuration",
    lambda definition: _of_repositories(definition.get("connector")),
    lambda stored: _of_repositories(stored.connector),
)
OUTPUT: Final = Subject(
    "output",
    OutputConnection,
    OutputDefinition,
    OutputDefinition.ORDER,
    OutputConnection.objects.all,
    _write_connection(OutputConnection),
    "configuration",
    lambda definition: _of_outputs(definition.get("connector")),
    lambda stored: _of_outputs(stored.connector),
)
JOB: Final = Subject(
    "job",
    Job,
    JobDefinition,
    JobDefinition.ORDER,
    _jobs,
    _write_job,
    "specification",
    lambda definition: _of_jobs(_connector_of(definition)),
    lambda stored: _of_jobs(stored.repository.connector),
)
# In the order of an import: a definition refers only to objects of earlier kinds.
SUBJECTS: Final[Mapping[str, Subject]] = {one.name: one for one in (POLICY, REPOSITORY, OUTPUT, JOB)}
