"""Stored objects as definitions: for comparisons, with sealed secrets, and for exports, without secrets."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from django.db.models import Q
from rest_framework import serializers

from jobs.connectors.schema import Schema
from jobs.definitions.secrets import secrets_of
from jobs.definitions.subjects import JOB, OUTPUT, POLICY, REPOSITORY, SUBJECTS, Subject
from jobs.verbs import policies

# Largest number of objects that one query reads.
_CHUNK: Final = 100

Definition = dict[str, Any]


def read_whole(subject: Subject, stored: Any, *, with_defaults: bool) -> Definition:  # noqa: ANN401 (any of four models)
    """Return an object as a definition that still has its sealed secrets."""
    serializer = subject.serializer()
    shown = serializer.to_representation(stored)
    definition = {name: shown[name] for name in subject.order}
    if not with_defaults:
        definition = _without_defaults(serializer, definition)
        if subject is POLICY and shown["min_gap"] == policies.default_gap(
            unlimited=shown["unlimited"], starts=shown["starts"]
        ):
            del definition["min_gap"]
    if subject.held_in in definition:
        definition[subject.held_in] = _in_order(definition[subject.held_in], subject.stored_schema(stored))
    return definition


def without_secrets(subject: Subject, stored: Any, whole: Definition) -> Definition:  # noqa: ANN401 (any of four models)
    """Return the definition of an object as exports show it: `left_out` has the places of its secrets."""
    if subject.held_in not in whole:
        return whole
    shown = copy.deepcopy(whole)
    found = list(secrets_of(shown[subject.held_in], subject.stored_schema(stored), below=(subject.held_in,)))
    for secret in found:
        del secret.holder[secret.key]
    return {**shown, "left_out": [secret.path for secret in found]} if found else shown


def read_shown(name: str, object_id: int) -> Definition:
    """Return the definition of the object of this kind, with its defaults and without its secrets."""
    subject = SUBJECTS[name]
    stored = subject.rows().get(pk=object_id)
    return without_secrets(subject, stored, read_whole(subject, stored, with_defaults=True))


def read_all() -> Iterator[Definition]:
    """Yield the definitions of all objects, including private policies, in the order of an import."""
    for subject in SUBJECTS.values():
        rows = subject.rows().order_by("name").iterator(chunk_size=_CHUNK)
        yield from _shown(subject, rows)


def read_rows(chosen: Mapping[Subject, Sequence[Any]], *, alone: bool) -> Iterator[Definition]:
    """
    Yield the definitions of these objects in the order of an import.

    The policies and connections of jobs are also included, before the jobs, unless `alone`.
    """
    numbers = [] if alone else [job.pk for job in chosen.get(JOB, ())]
    used = {
        POLICY: Q(seeds__job__in=numbers, seeds__removed_at=None),
        REPOSITORY: Q(jobs__in=numbers),
        OUTPUT: Q(jobs__in=numbers),
    }
    for subject in SUBJECTS.values():
        named = [row.pk for row in chosen.get(subject, ())]
        which = Q(pk__in=named)
        if subject in used and numbers:
            which |= Q(pk__in=subject.model.objects.filter(used[subject]).values("pk"))
        yield from _shown(subject, subject.rows().filter(which).order_by("name"))


def _shown(subject: Subject, rows: Iterable[Any]) -> Iterator[Definition]:
    for row in rows:
        yield without_secrets(subject, row, read_whole(subject, row, with_defaults=False))


def _without_defaults(serializer: serializers.Serializer[Any], shown: Mapping[str, Any]) -> Definition:
    """Return the fields whose value is not the default of a new object."""
    definition = {}
    for name, stored in shown.items():
        field, value = serializer.fields[name], stored
        if isinstance(field, serializers.ListSerializer):
            assert isinstance(field.child, serializers.Serializer)
            value = [_without_defaults(field.child, item) for item in stored]
        default = field.default() if callable(field.default) else field.default
        if default is serializers.empty or value != default:
            # A whole number of seconds is written without a fraction.
            definition[name] = int(value) if isinstance(value, float) and value.is_integer() else value
    return definition


def _in_order(stored: Mapping[str, Any], schema: Schema) -> Definition:
    """Return the values of a connector in the order of its fields. The database does not keep this order."""
    names = [field.name for field in schema.fields if field.name in stored]
    records = {field.name: field.records for field in schema.fields if field.records is not None}
    ordered = {name: stored[name] for name in (*names, *(name for name in sorted(stored) if name not in names))}
    for name, inner in records.items():
        if isinstance(ordered.get(name), list):
            ordered[name] = [_in_order(item, inner) if isinstance(item, Mapping) else item for item in ordered[name]]
    return ordered
