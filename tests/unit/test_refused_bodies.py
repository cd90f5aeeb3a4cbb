"""Proves that a refusal of a body takes time in proportion to the length of the body."""

import pytest
from rest_framework import serializers
from rest_framework.exceptions import ParseError

from nodes.api.parsing import read_json
from nodes.api.strict import StrictSerializer


class Named(StrictSerializer):
    name = serializers.CharField()


def test_a_repeated_key_after_very_many_others_is_found_in_one_pass():
    # If each key were compared with each other key, the test would take hours.
    members = ",".join(f'"{number:x}":1' for number in range(200_000))

    with pytest.raises(ParseError, match="The body has the key 'again' twice"):
        read_json(f'{{{members},"again":1,"again":2}}'.encode())


def test_a_refusal_names_few_of_many_unknown_fields_and_cuts_long_names():
    body = Named(data={"name": "x", "k" * 100_000: 1, **{f"unknown {number}": 1 for number in range(1_000)}})

    assert not body.is_valid()
    assert len(body.errors) == 50
    assert max(map(len, body.errors)) < 200
