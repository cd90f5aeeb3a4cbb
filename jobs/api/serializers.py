"""Jobs and connections, as the API shows and accepts them, and the journals of jobs."""

from typing import Any

from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.api.fields import (
    HIGHEST_ID,
    MOST_OUTPUTS,
    MOST_SEEDS,
    AddressField,
    ConfigurationField,
    ObjectField,
    OutputsField,
    PipelineField,
    TagField,
)
from jobs.api.job_options import OPTION_FIELDS, OptionsFields
from jobs.lifecycle.job import allowed_transitions
from jobs.lifecycle.table import Owner
from jobs.models import Job, JobEvent, LostLines, OutputConnection, RepositoryConnection, Seed, ThrottlePolicy
from jobs.queue.counting.counters import RunCounts
from jobs.verbs import connections
from jobs.verbs.seed_lists import LONGEST_ADDRESS, MOST_ADDRESSES
from jobs.verbs.seeds import SeedWanted
from nodes.api.strict import NamedQuery, NewestQuery, PageQuery, StrictSerializer


class StrictModelSerializer(StrictSerializer, serializers.ModelSerializer[Any]):
    """A serializer of a model that refuses unknown fields."""


class SeedSerializer(StrictModelSerializer):
    """Seed: one or more start addresses with one policy."""

    id = serializers.IntegerField(
        min_value=1,
        max_value=HIGHEST_ID,
        required=False,
        help_text="ID of the seed to change. Without it, a seed is added. A new job ignores it.",
    )
    urls = serializers.ListField(
        child=AddressField(max_length=LONGEST_ADDRESS), min_length=1, max_length=MOST_ADDRESSES
    )
    policy = serializers.IntegerField(
        source="policy_id",
        min_value=1,
        max_value=HIGHEST_ID,
        allow_null=True,
        default=None,
        help_text="ID of the policy.",
    )

    tag = TagField(help_text="Tag of the workers that read the seed. If empty, any worker does.")

    class Meta:
        model = Seed
        fields = ("id", "urls", "policy", "tag")


class SeedOfJobSerializer(SeedSerializer):
    """Seed with its job."""

    class Meta:
        model = Seed
        fields = ("id", "job", "urls", "policy", "tag")
        read_only_fields = fields


class FirstSeedSerializer(serializers.Serializer[Any]):
    """Seed in a list, with its first address."""

    id = serializers.IntegerField()
    first_urls = serializers.ListField(child=AddressField())
    urls_in_all = serializers.IntegerField()
    policy = serializers.IntegerField(allow_null=True, help_text="ID of the policy.")
    tag = serializers.CharField()


class SeedInListSerializer(FirstSeedSerializer):
    """Seed in a list over all jobs, with its first address."""

    job = serializers.IntegerField(source="job_id")
    policy = serializers.IntegerField(source="policy_id", allow_null=True, help_text="ID of the policy.")


class AddressesSavedSerializer(serializers.Serializer[Any]):
    """Seed with changed addresses."""

    id = serializers.IntegerField()
    job = serializers.IntegerField()
    urls_in_all = serializers.IntegerField()
    warnings = serializers.ListField(child=serializers.CharField())


class JobSerializer(OptionsFields, StrictModelSerializer):
    """Job: its source, seeds, outputs, schedule and status."""

    ignored = frozenset({"warnings"})
    name = serializers.CharField(max_length=200)
    outputs = OutputsField(min_length=1, max_length=MOST_OUTPUTS)
    seeds: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=SeedSerializer(), min_length=1, max_length=MOST_SEEDS
    )
    specification = ObjectField(
        default=dict, help_text="Specification for the repository's connector: scope, rules, limits."
    )
    pipeline = PipelineField()
    max_documents = serializers.IntegerField(
        min_value=1,
        max_value=2**53 - 1,
        allow_null=True,
        default=None,
        help_text="Document limit of a run. Null if there is none.",
    )
    priority = serializers.IntegerField(
        min_value=1, max_value=10, default=5, help_text="Priority among jobs that share a host: 1 is first, 10 is last."
    )
    scope = serializers.CharField(
        source="node_scope", read_only=True, help_text="Scope of the nodes that work on the job."
    )
    run_end = serializers.CharField(
        read_only=True, help_text="Result of its last run. Empty before the first run has ended."
    )
    status = serializers.CharField(read_only=True, help_text="Status in plain words.")
    manifoldcf_status = serializers.CharField(read_only=True, help_text="Status in ManifoldCF's words.")
    allowed = serializers.SerializerMethodField(help_text="Actions that are possible now.")

    class Meta:
        model = Job
        fields = (
            "id",
            "name",
            "repository",
            "outputs",
            "seeds",
            "specification",
            "pipeline",
            "max_documents",
            "priority",
            *OPTION_FIELDS,
            "scope",
            "status",
            "manifoldcf_status",
            "allowed",
            "phase",
            "pause",
            "window",
            "window_ends_at",
            "stop_request",
            "minimal",
            "connectors_ready",
            "guard",
            "reason",
            "run_no",
            "run_end",
            "scan",
            "failures",
            "retry_at",
            "started_at",
            "ended_at",
            "schedule_paused_at",
            "created_at",
        )
        read_only_fields = fields[9 + len(OPTION_FIELDS) :]

    def get_allowed(self, job: Job) -> list[str]:
        return [row.verb for row in allowed_transitions(job.state, owner=Owner.OPERATOR)]

    def validate_repository(self, repository: RepositoryConnection) -> RepositoryConnection:
        if self.instance is not None and repository.pk != self.instance.repository_id:
            raise serializers.ValidationError("The repository of a job cannot be changed. Create a new job instead.")
        return repository

    def validate_seeds(self, seeds: list[dict[str, Any]]) -> list[SeedWanted]:
        """
        Look up all policies with one query. Only the job of a one-shot command may have the private policy of this
        command.
        """
        found = ThrottlePolicy.objects.in_bulk(
            {seed["policy_id"] for seed in seeds if seed.get("policy_id") is not None}
        )
        job_id = self.instance.pk if self.instance is not None else None
        usable = {pk: policy for pk, policy in found.items() if policy.private_to_id in {None, job_id}}
        problems = {
            str(number): {"policy": [f"Policy {seed['policy_id']} does not exist."]}
            for number, seed in enumerate(seeds)
            if seed.get("policy_id") is not None and seed["policy_id"] not in usable
        }
        # In a PATCH of a job, each seed is complete. The framework does not require fields in a PATCH, so this check
        # does.
        for number, seed in enumerate(seeds):
            if "urls" not in seed:
                problems.setdefault(str(number), {})["urls"] = ["A seed needs at least one address."]
        if problems:
            raise serializers.ValidationError(problems)
        return [
            SeedWanted(
                urls=tuple(seed["urls"]),
                policy=usable.get(seed.get("policy_id")),
                tag=seed.get("tag", ""),
                id=seed.get("id") if job_id is not None else None,
            )
            for seed in seeds
        ]


class JobInListSerializer(JobSerializer):
    """
    A job in a list: without its specification, which may be long, and with a few of its seeds.

    Shortened fields have other names than the complete ones, so that a client does not send back a shortened list as
    the complete one.
    """

    seeds_in_all = serializers.IntegerField(
        source="seeds_found.in_all", read_only=True, help_text="Number, counted up to 1,001."
    )
    first_seeds = FirstSeedSerializer(source="seeds_found.first", many=True, read_only=True)
    all_seeds = serializers.SerializerMethodField(help_text="Address of the list of its seeds.")

    class Meta:
        model = Job
        fields = (
            *(name for name in JobSerializer.Meta.fields if name not in {"seeds", "specification", "pipeline"}),
            "seeds_in_all",
            "first_seeds",
            "all_seeds",
        )
        read_only_fields = fields

    @extend_schema_field(OpenApiTypes.URI)
    def get_all_seeds(self, job: Job) -> str:
        address: str = self.context["request"].build_absolute_uri(f"{reverse('api:seed-list')}?job={job.pk}")
        return address


class JobSavedSerializer(JobSerializer):
    """Stored job, with warnings about probable mistakes."""

    warnings = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Job
        fields = (*JobSerializer.Meta.fields, "warnings")
        read_only_fields = JobSerializer.Meta.read_only_fields


class CountsSerializer(serializers.Serializer[RunCounts]):
    """Counts of documents in a job's current or last run."""

    processed = serializers.IntegerField()
    indexed = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    deleted = serializers.IntegerField()
    failed = serializers.IntegerField()
    excluded = serializers.IntegerField()
    waiting = serializers.IntegerField()
    bytes = serializers.IntegerField()
    offered = serializers.IntegerField(
        help_text="Links that workers sent to the database: about one per identifier and worker."
    )
    result_codes = serializers.DictField(child=serializers.IntegerField(), source="codes")


class CountsEverywhereSerializer(CountsSerializer):
    """Counts of documents in a job's current or last run, in all partitions."""

    silent = serializers.ListField(
        child=serializers.CharField(),
        help_text="Partitions that did not answer. Their counts are missing, so the true counts may be higher.",
    )


class JobEventSerializer(serializers.ModelSerializer[JobEvent]):
    """Event of a job. `job` is null if the job was deleted."""

    class Meta:
        model = JobEvent
        fields = ("id", "at", "job", "job_name", "kind", "made_by", "message", "detail")
        read_only_fields = fields


class ConnectionSerializer(StrictModelSerializer):
    """A connector and its configuration."""

    name = serializers.CharField(max_length=200)
    connector = serializers.SlugField(max_length=50)
    configuration = ConfigurationField(
        default=dict,
        help_text="Configuration for its connector. A secret is shown as `(secret)`, which leaves it as it is.",
    )

    def validate_connector(self, connector: str) -> str:
        if self.instance is not None and connector != self.instance.connector:
            raise serializers.ValidationError(
                "The connector of a connection cannot be changed. Create a new connection instead."
            )
        return connector


class RepositorySerializer(ConnectionSerializer):
    """
    A source of documents, and the part of its history that is being deleted.

    `status` is the reason why this process cannot reach the source; empty if it can.
    """

    status = serializers.SerializerMethodField()
    authority_group = serializers.IntegerField(
        source="authority_group_id",
        min_value=1,
        max_value=HIGHEST_ID,
        allow_null=True,
        default=None,
        help_text="Authority group of the access tokens of its documents. Null if it has none.",
    )

    class Meta:
        model = RepositoryConnection
        fields = ("id", "name", "connector", "configuration", "authority_group", "status", "clear_history_before")
        read_only_fields = ("clear_history_before",)

    def get_status(self, connection: RepositoryConnection) -> str:
        return connections.status(connection)


class LostLinesSerializer(serializers.ModelSerializer[LostLines]):
    """Loss of lines: the file of the output was deleted or truncated on one machine."""

    class Meta:
        model = LostLines
        fields = ("machine", "noticed_at", "was_bytes", "is_bytes")
        read_only_fields = fields


class OutputSerializer(ConnectionSerializer):
    """Output. `lost_lines` lists the machines on which its file was deleted or truncated."""

    lost_lines = LostLinesSerializer(many=True, read_only=True)

    class Meta:
        model = OutputConnection
        fields = (
            "id",
            "name",
            "connector",
            "configuration",
            "trusted_from",
            "clear_before",
            "clearing_refused",
            "lost_lines",
        )
        read_only_fields = ("trusted_from", "clear_before", "clearing_refused")


class SendBackSerializer(StrictSerializer):
    """Failed documents to retry: those with some result codes, or all."""

    codes = serializers.ListField(child=serializers.CharField(max_length=30), default=list, max_length=100)


class SentBackSerializer(serializers.Serializer[Any]):
    """Number of retried documents, with a flag that is true if further failed documents are left."""

    documents = serializers.IntegerField()
    has_more = serializers.BooleanField()
    left_out = serializers.ListField(
        child=serializers.CharField(),
        help_text="Partitions that changed nothing: no answer, or the job starts or ends there. Repeat the request for them.",
    )


class JobQuery(NamedQuery):
    name = serializers.CharField(required=False, max_length=200)
    phase = serializers.ChoiceField(Job._meta.get_field("phase").choices or (), required=False)  # noqa: SLF001 (Django's own word)
    scope = serializers.CharField(source="node_scope", required=False, max_length=100)


class SeedQuery(PageQuery):
    """Parameters of the list of seeds."""

    job = serializers.IntegerField(source="job_id", min_value=1, max_value=HIGHEST_ID, required=False)
    ordering = serializers.ChoiceField(["id", "-id"], default="id", help_text="`-id`: newest first.")


class JobEventQuery(NewestQuery):
    """Parameters of the list of events."""

    job = serializers.IntegerField(source="job_id", min_value=1, max_value=HIGHEST_ID, required=False)
