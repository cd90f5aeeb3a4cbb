"""Definitions between partitions: the control partition sends a job to the others, which adopt it."""

from typing import Any

from django.db.models import Q

from jobs.definitions.importing import Given, import_definitions
from jobs.definitions.reading import read_whole
from jobs.definitions.subjects import JOB, OUTPUT, POLICY, REPOSITORY, SUBJECTS, make_groups
from jobs.lifecycle.job import StartMethod
from jobs.models import Job, ThrottlePolicy
from jobs.partitions.configuration import Definitions
from jobs.partitions.this_partition import following
from jobs.verbs import policies
from nodes.permissions import may_do_everything

_AUTHOR = "the control partition"


def read_for_partitions(job_id: int) -> Definitions:
    """
    Return the definitions of a job and of all objects that apply to it. Secrets stay sealed, because partitions share
    the key.
    """
    used = {
        POLICY: Q(seeds__job=job_id, seeds__removed_at=None) | Q(applies_everywhere=True),
        REPOSITORY: Q(jobs=job_id),
        OUTPUT: Q(jobs=job_id),
        JOB: Q(pk=job_id),
    }
    definitions: list[dict[str, Any]] = []
    for subject in SUBJECTS.values():
        chosen = subject.model.objects.filter(used[subject]).values("pk")
        rows = subject.rows().filter(pk__in=chosen).order_by("name")
        definitions += [read_whole(subject, row, with_defaults=False) for row in rows]
    for definition in definitions:
        if definition["definition"] == JOB.name:
            # The control partition starts the runs.
            definition.pop("windows", None)
            definition["start_method"] = StartMethod.MANUAL.value
    return definitions


def adopt(definitions: Definitions) -> int:
    """
    Import the definitions; return the id of the job. A policy that applied everywhere and is not among the definitions
    no longer applies everywhere.

    Missing authority groups are created, because tokens of documents need only the name of their group.
    """
    name = next(str(one["name"]) for one in definitions if one["definition"] == JOB.name)
    make_groups({group for one in definitions if (group := one.get("authority_group"))})
    given = [Given(place=f"{one['definition']} {one['name']}", body=one) for one in definitions]
    with following():
        import_definitions(given, may=may_do_everything, made_by=_AUTHOR, dry_run=False)
        present = [str(one["name"]) for one in definitions if one["definition"] == POLICY.name]
        for policy in ThrottlePolicy.objects.filter(applies_everywhere=True).exclude(name__in=present):
            policies.change(policy.pk, applies_everywhere=False, everywhere=True, made_by=_AUTHOR)
    return Job.objects.get(name=name).pk
