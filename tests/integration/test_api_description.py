"""The description of the API is valid OpenAPI, and unambiguous for programs that are generated from it."""

from django.core.management import call_command
from jsonschema import validate as validate_value
from openapi_spec_validator import validate

from tests.support.api_description import description


def test_the_api_is_described_without_a_doubt(tmp_path, capsys):
    # Two components with one name, or a name made from a number, cause a warning, which ends the command.
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(tmp_path / "schema.yaml"))

    assert capsys.readouterr().err == ""


def test_the_description_is_valid_openapi():
    validate(description())


def test_an_empty_text_beside_a_pattern_is_valid():
    described = description()["components"]["schemas"]["Seed"]

    validate_value("", described["properties"]["tag"])
