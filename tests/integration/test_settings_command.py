"""`manage.py settings` prints the effective values, and stores a file as a whole or not at all."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from jobs.settings.table import CLAIMED, TABLE
from nodes.models import SettingsVersion
from nodes.settings.effective import Effective
from tests.support.api import make_node

pytestmark = pytest.mark.django_db(transaction=True)


def run(*arguments):
    out = io.StringIO()
    call_command("settings", *map(str, arguments), stdout=out)
    return out.getvalue().splitlines()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"worker": {"claimed": 5}}))
    return path


def test_effective_settings_are_printed_with_their_sources(file):
    make_node("worker-7", settings=Effective(table=TABLE, environment={CLAIMED.path: 7}).report())

    assert run(file) == ["worker.claimed default → 5 (immediately)"]

    lines = run()
    assert lines[0] == "version 1"
    assert "worker.claimed = 5 (stored); worker-7: 7 (environment)" in lines
    assert "cluster.node_timeout = 10 (default)" in lines


def test_a_dry_run_stores_no_settings(file):
    assert run(file, "--dry-run") == ["worker.claimed default → 5 (immediately)"]
    assert not SettingsVersion.objects.exists()


def test_an_already_stored_value_is_reported(file):
    run(file)

    assert run(file) == ["no changes"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"worker": {"claimed": 0}}', "The settings were not stored. worker.claimed: This must be a whole number"),
        ("{", "The body is not JSON"),
        (None, "Cannot read .*: No such file or directory"),
    ],
)
def test_an_invalid_value_of_a_setting_is_refused_with_a_reason(tmp_path, text, sentence):
    path = tmp_path / "settings.json"
    if text is not None:
        path.write_text(text)

    with pytest.raises(CommandError, match=sentence) as refused:
        run(path)

    assert refused.value.returncode == 2
    assert not SettingsVersion.objects.exists()
