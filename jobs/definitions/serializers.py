"""The fields of definitions: the writable fields of the API, with names in place of ids."""

from typing import Any, Final

from django.db.models import Manager
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.api.fields import MOST_OUTPUTS, MOST_SEEDS, PIPELINE_SCHEMA, AddressField, ObjectField, TagField
from jobs.api.job_options import OPTION_FIELDS, OptionsFields
from jobs.api.policies import PolicySerializer
from jobs.api.serializers import ConnectionSerializer
from jobs.connectors.transformation.pipeline import read_pipeline
from jobs.lifecycle.limits import LIMITS
from jobs.models import Job, OutputConnection, RepositoryConnection, ThrottlePolicy
from jobs.verbs.seed_lists import LONGEST_ADDRESS, MOST_ADDRESSES
from nodes.api.strict import StrictSerializer

# Longest name of a connection, which may be made from a path.
_LONGEST_NAME: Final = 400
_MOST_SECRETS: Final = 1_000
_LONGEST_PLACE: Final = 1_000


class SubjectField(serializers.CharField):
    """The kind of object that a definition describes."""

    def __init__(self, subject: str) -> None:
        super().__init__(help_text=f"Always `{subject}`.")
        self._subject = subject

    def get_attribute(self, _instance: object) -> str:
        return self._subject


class NameField(serializers.CharField):
    """The name of a connection or of a policy."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=_LONGEST_NAME, **options)

    def to_representation(self, value: Any) -> str:  # noqa: ANN401 (a connection or a policy)
        return str(value.name)


@extend_schema_field(
    {
        "type": "array",
        "items": {"type": "string", "maxLength": _LONGEST_NAME},
        "minItems": 1,
        "maxItems": MOST_OUTPUTS,
    }
)
class NamesField(serializers.ListField):
    """The names of outputs."""

    child = serializers.CharField(max_length=_LONGEST_NAME)

    def to_representation(self, value: "list[Any] | Manager[OutputConnection]") -> list[str]:
        return sorted(output.name for output in (value.all() if isinstance(value, Manager) else value))


@extend_schema_field(PIPELINE_SCHEMA)
class PipelineOfNamesField(ObjectField):
    """The stages between the source of a job and its outputs, which have their names."""

    def __init__(self) -> None:
        super().__init__(
            default=dict, help_text="Stages between source and outputs. An output has its name as its key."
        )

    def get_attribute(self, instance: Any) -> Any:  # noqa: ANN401 (the job, for the names of its outputs)
        return instance

    def to_representation(self, value: Any) -> dict[str, Any]:  # noqa: ANN401 (a job)
        stored = read_pipeline(value.pipeline).stored()
        if not stored:
            return {}
        names = {str(output.pk): output.name for output in value.outputs.all()}
        ends = {names[output]: stage for output, stage in stored.pop("outputs").items() if output in names}
        return {**stored, **({"outputs": dict(sorted(ends.items()))} if ends else {})}


class LeftOutField(serializers.ListField):
    """The places of secrets that a definition leaves out."""

    def __init__(self) -> None:
        super().__init__(
            child=serializers.CharField(max_length=_LONGEST_PLACE),
            default=list,
            max_length=_MOST_SECRETS,
            help_text="Places of secrets that are left out. An import keeps the stored ones.",
        )

    def get_attribute(self, _instance: object) -> list[str]:
        return []


class SeedDefinition(StrictSerializer):
    """Seed: one or more start addresses with one policy."""

    urls = serializers.ListField(
        child=AddressField(max_length=LONGEST_ADDRESS), min_length=1, max_length=MOST_ADDRESSES
    )
    policy = NameField(allow_null=True, default=None, help_text="Name of its policy.")
    tag = TagField(help_text="Tag of the workers that read the seed. If empty, any worker does.")


class JobDefinition(OptionsFields, StrictSerializer):
    """Job, without its state."""

    definition = SubjectField("job")
    name = serializers.CharField(max_length=200)
    repository = NameField(help_text="Name of its repository.")
    outputs = NamesField(min_length=1, max_length=MOST_OUTPUTS, help_text="Names of its outputs.")
    seeds: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=SeedDefinition(), min_length=1, max_length=MOST_SEEDS
    )
    specification = ObjectField(
        default=dict, help_text="Specification for the repository's connector: scope, rules, limits."
    )
    pipeline = PipelineOfNamesField()
    max_documents = serializers.IntegerField(
        min_value=1, max_value=2**53 - 1, allow_null=True, default=None, help_text="Document limit of a run."
    )
    priority = serializers.IntegerField(
        min_value=1, max_value=10, default=5, help_text="Priority among jobs that share a host: 1 is first, 10 is last."
    )
    left_out = LeftOutField()

    ORDER: Final = (
        "definition",
        "name",
        "repository",
        "outputs",
        "seeds",
        "specification",
        "pipeline",
        "max_documents",
        "priority",
        *OPTION_FIELDS,
        "left_out",
    )

    def validate_repository(self, repository: str) -> str:
        stored = self.instance
        if isinstance(stored, Job) and repository != stored.repository.name:
            raise serializers.ValidationError("The repository of a job cannot be changed. Create a new job instead.")
        return repository


class ConnectionDefinition(ConnectionSerializer):
    """A connector and its configuration."""

    name = serializers.CharField(max_length=_LONGEST_NAME)
    # Without masks: a definition leaves its secrets out, and an import compares them with the stored ones.
    configuration = ObjectField(  # type: ignore[assignment]  # it replaces the field with one of another type
        default=dict, help_text="Configuration for its connector."
    )
    left_out = LeftOutField()

    ORDER: Final = ("definition", "name", "connector", "configuration", "left_out")


class RepositoryDefinition(ConnectionDefinition):
    """Repository: a source of documents."""

    definition = SubjectField("repository")
    name = serializers.CharField(max_length=200)
    authority_group = NameField(
        allow_null=True,
        default=None,
        help_text="Name of the authority group to which the tokens of its documents belong.",
    )

    FIELDS: Final = (*ConnectionDefinition.ORDER[:-1], "authority_group", "left_out")

    class Meta:
        model = RepositoryConnection
        fields = (*ConnectionDefinition.ORDER[:-1], "authority_group", "left_out")


class OutputDefinition(ConnectionDefinition):
    """Output: a destination of documents."""

    definition = SubjectField("output")

    class Meta:
        model = OutputConnection
        fields = ConnectionDefinition.ORDER


class PolicyDefinition(PolicySerializer):
    """Throttle policy: limits for each host that its seeds reach, and for all these hosts together."""

    ignored = frozenset()
    definition = SubjectField("policy")

    class Meta:
        model = ThrottlePolicy
        fields = (
            "definition",
            "name",
            *LIMITS,
            "applies_everywhere",
            "per_address",
            "skips_loopback",
            "time_zone",
            "rules",
            "unlimited",
        )
