"""
The import of definitions: all of them in one transaction, or none.

A dry run carries out the same import and rolls it back, so its plan is exact. If the definition of an object equals the
stored one, only this object is rolled back. It gets no version and no line in a journal.
"""

import copy
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import transaction
from django.db.models import Q

from jobs.api.errors import problems_by_field
from jobs.connectors.stored_secrets import counterpart, why_not_kept
from jobs.definitions import secrets
from jobs.definitions.comparing import differences_of
from jobs.definitions.reading import Definition, read_whole
from jobs.definitions.subjects import JOB, OUTPUT, REPOSITORY, SUBJECTS, Author, Context, Subject
from jobs.models import Job
from jobs.verbs.policies import EVERYWHERE
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotAllowed, NotDone, Unknown
from nodes.membership.changes import Differences

# Largest number of definitions in one import.
MOST: Final = 10_000


class Result(enum.StrEnum):
    """The effect of an import on one object."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Given:
    """A definition as input. `place` says where it was found, such as a file and the number of its document."""

    place: str
    body: object


@dataclass(frozen=True, slots=True)
class Change:
    """
    The effect of the import of one definition: the changed fields with their values `before` and `after`, without
    secrets.
    """

    definition: str
    name: str
    result: Result
    fields: Differences = field(default_factory=dict)
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of one field. `about` names the object, such as `job docs`; a missing name is left out."""

    place: str
    about: str
    field: str
    sentences: Sequence[str]


class Refused(NotDone):
    """The import has problems. Nothing was changed."""

    code = "invalid"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = problems
        super().__init__(" ".join(sentence for problem in problems for sentence in problem.sentences))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A definition whose subject and name are known."""

    given: Given
    subject: Subject
    name: str
    body: dict[str, Any]

    def problem(self, where: str, sentences: Sequence[str]) -> Problem:
        return Problem(self.given.place, f"{self.subject.name} {self.name}", where, sentences)


def import_definitions(
    given: Sequence[Given], *, may: Callable[[str], bool], made_by: str, dry_run: bool
) -> list[Change]:
    """
    Carry out an import, and return its effects in the order of the input.

    `may` tells whether the author has a permission. A dry run changes nothing.

    Raises:
        Refused: some definitions have problems.
        NotAllowed: the author may not create or change some of the objects.
    """
    wanted = _identify(given)
    author = Author(made_by, everywhere=may(EVERYWHERE), now=read_clock())
    problems: dict[int, list[Problem]] = {}
    changes: dict[int, Change] = {}
    with transaction.atomic():
        lock([(one.subject, one.name) for one in wanted])
        context = Context(author)
        # Sorted, because two imports that create the same objects in different orders would wait for each other.
        by_name = sorted(enumerate(wanted), key=lambda numbered: numbered[1].name)
        for subject in SUBJECTS.values():
            for place, one in by_name:
                if one.subject is not subject:
                    continue
                found = list(_problems_of(one, context, changes, place, may=may))
                if found:
                    problems[place] = found
                    context.failed.add((subject.name, one.name))
        if problems:
            raise Refused([problem for place in sorted(problems) for problem in problems[place]])
        if dry_run:
            transaction.set_rollback(True)
    return [changes[place] for place in range(len(wanted))]


def redefine(
    subject: Subject, object_id: int, body: Mapping[str, Any], *, may: Callable[[str], bool], made_by: str, advice: str
) -> Change:
    """
    Give a stored object another definition, which may also change the name. Return the effect.

    Raises:
        Invalid: the definition has problems.
        NotAllowed: the author may not change the object.
        Unknown: the object does not exist.
    """
    if not may(subject.permission("change")):
        raise NotAllowed(f"Your role does not permit you to change this {subject.name}.")
    changes: dict[int, Change] = {}
    with transaction.atomic():
        stored = subject.rows().filter(pk=object_id).first()
        if stored is None:
            raise Unknown(subject.name, object_id)
        lock([(subject, stored.name)])
        stored = subject.rows().get(pk=object_id)
        context = Context(Author(made_by, everywhere=may(EVERYWHERE), now=read_clock()), advice=advice)
        one = _Wanted(Given("", body), subject, str(body["name"]), copy.deepcopy(dict(body)))
        found = list(_problems_with(one, stored, context, changes, 0))
        if found:
            raise Invalid({problem.field: problem.sentences for problem in found})
    return changes[0]


def items_of(body: object) -> list[Any] | None:
    """Return the definitions of a list, or of an answer of the API; None if the body is a single definition."""
    if isinstance(body, Mapping) and set(body) == {"results", "next"} and isinstance(body["results"], list):
        return body["results"]
    return body if isinstance(body, list) else None


def lock(named: Sequence[tuple[Subject, str]]) -> None:
    """
    Lock these objects until the transaction ends, and the jobs that use them.

    Locks: policies, connections, then jobs, as every change of a connection takes them.
    """
    names = {subject: [name for other, name in named if other is subject] for subject in SUBJECTS.values()}
    for subject, wanted in names.items():
        rows = subject.model._default_manager.select_for_update(no_key=True, of=("self",))  # noqa: SLF001 (Django's own word)
        which = Q(name__in=wanted)
        if subject is JOB:
            which |= Q(repository__name__in=names[REPOSITORY])
            which |= Q(pk__in=Job.objects.filter(outputs__name__in=names[OUTPUT]).values("pk"))
        list(rows.filter(which).order_by("pk").values_list("pk"))


def identify(body: object) -> tuple[Subject, str] | None:
    """Return the subject and the name of a definition; None if one of them is missing."""
    if not isinstance(body, Mapping):
        return None
    subject, name = body.get("definition"), body.get("name")
    if not isinstance(subject, str) or subject not in SUBJECTS or not isinstance(name, str) or "\0" in name:
        return None
    return SUBJECTS[subject], name


def _identify(given: Sequence[Given]) -> list[_Wanted]:
    """
    Return the definitions with their subjects and names.

    Raises:
        Refused: a definition has no subject or no name, or two definitions have the same.
    """
    problems: list[Problem] = []
    wanted: list[_Wanted] = []
    seen: dict[tuple[str, str], str] = {}
    if not given:
        problems.append(Problem("", "", "", ["It has no definitions."]))
    if len(given) > MOST:
        raise Refused([Problem("", "", "", [f"An import has at most {MOST:,} definitions. Split it."])])
    for one in given:
        found = identify(one.body)
        if found is None:
            problems.append(_why_none(one))
            continue
        subject, name = found
        if (subject.name, name) in seen:
            said = f"The {subject.name} {name!r} is defined twice. Remove one of the definitions."
            problems.append(Problem(one.place, f"{subject.name} {name}", "name", [said]))
        seen[subject.name, name] = one.place
        assert isinstance(one.body, Mapping)
        wanted.append(_Wanted(one, subject, name, dict(one.body)))
    if problems:
        raise Refused(problems)
    return wanted


def _why_none(one: Given) -> Problem:
    kinds = ", ".join(SUBJECTS)
    if not isinstance(one.body, Mapping):
        return Problem(one.place, "", "", ["A definition is an object with the keys `definition` and `name`."])
    if one.body.get("definition") not in list(SUBJECTS):
        return Problem(one.place, "", "definition", [f"Write the kind of the object: one of {kinds}."])
    return Problem(one.place, "", "name", ["Write the name of the object."])


def _problems_of(
    one: _Wanted, context: Context, changes: dict[int, Change], place: int, *, may: Callable[[str], bool]
) -> Iterator[Problem]:
    """
    Create or change the object of one definition, and yield its problems.

    Raises:
        NotAllowed: the author may not do it.
    """
    stored = one.subject.rows().filter(name=one.name).first()
    verb = "add" if stored is None else "change"
    if not may(one.subject.permission(verb)):
        raise NotAllowed(f"Your role does not permit you to {verb} the {one.subject.name} {one.name!r}.")
    yield from _problems_with(one, stored, context, changes, place)


def _problems_with(
    one: _Wanted,
    stored: Any | None,  # noqa: ANN401 (any of four models)
    context: Context,
    changes: dict[int, Change],
    place: int,
) -> Iterator[Problem]:
    """Change the stored object to its definition (None: create one), and yield the problems."""
    before = {} if stored is None else read_whole(one.subject, stored, with_defaults=True)
    found = list(_restore_secrets(one, before))
    if found:
        yield from found
        return
    serializer = one.subject.serializer(stored, data=one.body)
    if not serializer.is_valid():
        for where, sentences in problems_by_field(serializer.errors).items():
            yield one.problem(where, sentences)
        return
    try:
        changes[place] = _carry_out(one, stored, before, serializer.validated_data, context)
    except Invalid as invalid:
        for where, sentences in invalid.problems.items():
            yield one.problem(where, sentences)


def _carry_out(one: _Wanted, stored: object, before: Definition, wanted: dict[str, Any], context: Context) -> Change:
    with transaction.atomic():
        number, warnings = one.subject.write(stored, wanted, context)
        after = read_whole(one.subject, one.subject.rows().get(pk=number), with_defaults=True)
        found = {} if stored is None else differences_of(before, after)
        if stored is not None and not found:
            transaction.set_rollback(True)
    result = Result.CREATED if stored is None else Result.CHANGED if found else Result.UNCHANGED
    return Change(one.subject.name, one.name, result, found, warnings)


# --- Secrets ---------------------------------------------------------------------------------------


def _restore_secrets(one: _Wanted, before: Definition) -> Iterator[Problem]:
    """
    Put stored secrets at the places that the definition leaves out, and yield the places for which no secret is stored.
    """
    held_in, left_out = one.subject.held_in, one.body.get("left_out")
    if held_in is None:
        return
    given = one.body.get(held_in)
    if isinstance(left_out, list) and isinstance(given, dict):
        for number, path in enumerate(left_out):
            found = secrets.find_holder({held_in: given}, path) if isinstance(path, str) else None
            if found is None or found[0][0] != held_in or len(found[0]) == 1:
                yield one.problem(f"left_out.{number}", [f"No value of this definition has the place {path!r}."])
                continue
            steps, holder = found
            if steps[-1] in holder:
                continue
            known = before.get(held_in)
            stored = counterpart(steps[1:], given=given, stored=known)
            if stored is None:
                said = f"This secret is not stored yet. Write its value at {path}; it is stored encrypted."
                yield one.problem(path, [said])
            elif why := why_not_kept(steps[1:], given=given, stored=known, schema=one.subject.schema(one.body)):
                yield one.problem(path, [why])
            else:
                holder[str(steps[-1])] = stored
    if isinstance(given, dict):
        secrets.keep_equal(given, one.subject.schema(one.body), stored=before.get(held_in))
