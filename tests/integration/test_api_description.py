"""What the API says of itself, to programs that are made from it."""

from django.core.management import call_command


def test_the_api_is_described_without_a_doubt(tmp_path, capsys):
    # What two things of one name, or a name made from a number, would be warned of; a warning ends the command.
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(tmp_path / "schema.yaml"))

    assert capsys.readouterr().err == ""
