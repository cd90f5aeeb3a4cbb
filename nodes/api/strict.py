"""Serializers and queries that refuse what they do not know, instead of dropping it."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that names what it was given and cannot take."""

    def to_internal_value(self, data: object) -> dict[str, Any]:
        if isinstance(data, Mapping):
            writable = [name for name, field in self.fields.items() if not field.read_only]
            known = f"there are: {', '.join(writable)}" if writable else "there are none"
            problems = {
                str(name): [
                    f"This field is set by crawlctl itself; to be set {known}."
                    if name in self.fields
                    else f"There is no such field; {known}."
                ]
                for name in data
                if name not in writable
            }
            if problems:
                raise serializers.ValidationError(problems)
        read: dict[str, Any] = super().to_internal_value(data)
        return read


class Nothing(StrictSerializer):
    """The body of a request that says everything by its address."""


class PageQuery(StrictSerializer):
    """What every list may be asked."""

    limit = serializers.IntegerField(min_value=1, max_value=500, default=100, help_text="Rows on a page.")
    cursor = serializers.CharField(
        max_length=500, required=False, help_text="Where the page begins: as the page before it says in `next`."
    )


def read_query(form: type[StrictSerializer], request: Request) -> dict[str, Any]:
    """
    Return the values of a request's query.

    Raises:
        ValidationError: an unknown parameter, a repeated one that is no list, or a value that cannot be.
    """
    query = form()
    lists = {name for name, field in query.fields.items() if isinstance(field, serializers.ListField)}
    given = dict(request.query_params.lists())
    twice = [name for name, values in given.items() if len(values) > 1 and name not in lists]
    if twice:
        raise serializers.ValidationError({name: ["This parameter is given more than once."] for name in twice})
    query = form(data={name: values if name in lists else values[-1] for name, values in given.items()})
    query.is_valid(raise_exception=True)
    return dict(query.validated_data)
