"""How removals that wait for approval are shown."""

from typing import Any

from rest_framework import serializers


class _HostSerializer(serializers.Serializer[Any]):
    host = serializers.CharField()
    leaving = serializers.IntegerField(help_text="Documents that would be removed.")
    staying = serializers.IntegerField(help_text="Other documents that the outputs hold.")


class _SeedSerializer(serializers.Serializer[Any]):
    identifier = serializers.CharField()
    state = serializers.CharField(help_text="gone, empty, redirects or changed.")
    code = serializers.CharField(help_text="Its result code in that run.")


class _ParentSerializer(_SeedSerializer):
    children = serializers.IntegerField(help_text="Documents to be removed that it had named, and no longer does.")


class QuestionSerializer(serializers.Serializer[Any]):
    """What the clean-up of a run would remove, counted when the run ended. Lists begin with those of most documents."""

    run_no = serializers.IntegerField()
    asked_at = serializers.DateTimeField()
    leaving = serializers.IntegerField(help_text="Documents that would be removed.")
    staying = serializers.IntegerField(help_text="Documents that would stay.")
    cause = serializers.CharField(help_text="The cause that most of the removals share.")
    hosts = _HostSerializer(many=True)
    parents = _ParentSerializer(many=True)
    seeds = _SeedSerializer(many=True, help_text="Seeds that no longer name what would be removed.")
    examples = serializers.ListField(child=serializers.CharField(), help_text="Some documents that would be removed.")


class RemovalsSerializer(serializers.Serializer[Any]):
    """The removals of a job."""

    question = QuestionSerializer(allow_null=True, help_text="Null: no removal waits for approval.")
