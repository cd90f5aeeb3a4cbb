"""Serializers and queries that refuse unknown fields instead of ignoring them."""

import datetime as dt
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder

from nodes.models.word_search import words_in

# JSON types of fields. The framework's fields also read 0 as "0", and "no" as false, which the API does not describe.
_TYPES: Final[Sequence[tuple[tuple[type, ...], tuple[type, ...], str]]] = (
    ((serializers.BooleanField,), (bool,), "true or false"),
    ((serializers.IntegerField, serializers.RelatedField), (int,), "a whole number"),
    ((serializers.FloatField,), (int, float), "a number"),
    (
        (
            serializers.CharField,
            serializers.ChoiceField,
            serializers.UUIDField,
            serializers.DateTimeField,
            serializers.TimeField,
        ),
        (str,),
        "a text",
    ),
)
_OF_QUERY: Final = "is_query"
# The earliest moment that a request may name.
FIRST_MOMENT: Final = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
# Largest number of characters of a value, or of an unknown name, that an error shows.
_LONGEST_SHOWN: Final = 100
# Largest number of unknown fields that an error names. A body could have a million of them.
_MOST_UNKNOWN: Final = 50


class StrictSerializer(serializers.Serializer[Any]):
    """
    A serializer that names the fields that it cannot accept.

    It accepts the body that GET returns. A creation ignores the fields that crawlctl sets. A change ignores them if
    they have their present values.
    """

    # Names that only answers to changes have. A body with these names was made from such an answer.
    ignored: frozenset[str] = frozenset()

    def to_internal_value(self, data: object) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            read: dict[str, Any] = super().to_internal_value(data)
            return read
        problems: dict[str, Any] = self._problems_of_names(data)
        if problems:
            raise serializers.ValidationError(problems)
        problems = {} if self.context.get(_OF_QUERY) else self._problems_of_types(data)
        try:
            read = super().to_internal_value(data)
        except serializers.ValidationError as invalid:
            of_fields: Any = invalid.detail
            raise serializers.ValidationError({**of_fields, **problems}) from None
        if problems:
            raise serializers.ValidationError(problems)
        return read

    def _problems_of_names(self, data: Mapping[Any, Any]) -> dict[str, list[str]]:
        writable = [name for name, field in self.fields.items() if not field.read_only]
        known = f"known fields: {', '.join(writable)}" if writable else "no fields are allowed here"
        shown = [name for name in data if name in self.fields and name not in writable]
        unknown = (str(name) for name in data if name not in self.fields and name not in self.ignored)
        return {
            **{_abbreviated(name): [f"Unknown field; {known}."] for name in itertools.islice(unknown, _MOST_UNKNOWN)},
            **self._problems_of_shown({name: data[name] for name in shown}),
        }

    def _problems_of_types(self, data: Mapping[str, Any]) -> dict[str, Any]:
        found = {
            name: why_wrong_type(field, data[name])
            for name, field in self.fields.items()
            if name in data and not field.read_only
        }
        return {name: problem for name, problem in found.items() if problem}

    def _problems_of_shown(self, given: Mapping[str, Any]) -> dict[str, list[str]]:
        if not given or self.instance is None:
            return {}
        shown = json.loads(json.dumps(self.to_representation(self.instance), cls=JSONEncoder))
        return {
            name: [
                f"crawlctl sets this field. It is {_in_brief(shown.get(name))} now. Leave it out, or send this value."
            ]
            for name, value in given.items()
            if value != shown.get(name)
        }


def why_wrong_type(field: serializers.Field[Any, Any, Any, Any], value: object) -> list[str] | dict[str, Any]:
    """
    Return the problem of a value whose JSON type is not that of its field; empty if the type is right. For a list,
    return the problems by the places of their values.
    """
    if value is None:
        return []
    if isinstance(field, serializers.ListField):
        if not isinstance(value, list) or field.child is None:
            return []
        found = {str(place): why_wrong_type(field.child, item) for place, item in enumerate(value)}
        return {place: problem for place, problem in found.items() if problem}
    for fields, types, name in _TYPES:
        if isinstance(field, fields):
            is_right = isinstance(value, types) and (bool in types or not isinstance(value, bool))
            # JSON has one kind of numbers: 5.0 is a whole number.
            is_right |= isinstance(value, float) and int in types and value.is_integer()
            return [] if is_right else [f"This must be {name}."]
    return []


def _in_brief(value: object) -> str:
    return _abbreviated(json.dumps(value, ensure_ascii=False))


def _abbreviated(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


class MomentField(serializers.DateTimeField):
    """
    A moment in a request. Reports subtract times from it, so moments near the beginning of the calendar are refused.
    """

    def to_internal_value(self, value: Any) -> dt.datetime:  # noqa: ANN401 (as in its base)
        moment: dt.datetime = super().to_internal_value(value)
        if moment < FIRST_MOMENT:
            raise serializers.ValidationError(f"Choose a moment after {FIRST_MOMENT:%Y}.")
        return moment


class Nothing(StrictSerializer):
    """The empty body of a request whose address contains all information."""


class PageQuery(StrictSerializer):
    """The parameters of every list."""

    limit = serializers.IntegerField(min_value=1, max_value=500, default=100, help_text="Rows per page.")
    cursor = serializers.CharField(
        max_length=500, required=False, help_text="Start of the page, taken from `next` of the previous page."
    )


class SearchField(serializers.CharField):
    """A query for objects by their names. Its value is the list of the words."""

    def __init__(self) -> None:
        help_text = "Words of the name, or their beginnings. All must match."
        super().__init__(max_length=200, required=False, help_text=help_text)

    def run_validation(self, data: object = serializers.empty) -> list[str]:
        words = words_in(super().run_validation(data))
        if not words:
            raise serializers.ValidationError("A search needs a letter or a digit.")
        return words


class NewestQuery(PageQuery):
    """The parameters of a list whose rows are ordered by their numbers, by default the newest first."""

    ordering = serializers.ChoiceField(["-id", "id"], default="-id", help_text="`id`: oldest first.")


class NamedQuery(PageQuery):
    """The parameters of a list of things with names."""

    search = SearchField()
    ordering = serializers.ChoiceField(
        ["id", "-id", "name", "-name"], default="id", help_text="`-` before a name reverses the order."
    )


def read_body(form: type[StrictSerializer], request: Request) -> dict[str, Any]:
    """
    Return the values of a request's body.

    Raises:
        ValidationError: an unknown or missing field, or an invalid value.
    """
    body = form(data=request.data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


def read_query(form: type[StrictSerializer], request: Request) -> dict[str, Any]:
    """
    Return the values of a request's query.

    Raises:
        ValidationError: a parameter is unknown, repeated without being a list, or has an invalid value.
    """
    query = form(data={}, context={_OF_QUERY: True})
    lists = {name for name, field in query.fields.items() if isinstance(field, serializers.ListField)}
    given = dict(request.query_params.lists())
    twice = [name for name, values in given.items() if len(values) > 1 and name not in lists]
    if twice:
        raise serializers.ValidationError({name: ["This parameter is given more than once."] for name in twice})
    query.initial_data = {name: values if name in lists else values[-1] for name, values in given.items()}
    query.is_valid(raise_exception=True)
    return dict(query.validated_data)
