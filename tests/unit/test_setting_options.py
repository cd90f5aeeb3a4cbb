"""Proves that a daemon's option for a single setting means the same as `--set`."""

import pytest

from crawlctl.management.commands.runmanager import Command as RunManager
from jobs.management.commands.runtasks import Command as RunTasks
from nodes.tasks.settings import CLEAN_AFTER, DEAD_AFTER


@pytest.mark.parametrize(
    ("command", "flag", "setting"),
    [(RunManager, "--considered-dead-after", DEAD_AFTER), (RunTasks, "--clean-after", CLEAN_AFTER)],
)
def test_an_option_for_a_single_setting_means_the_same_as_set(command, flag, setting):
    parser = command().create_parser("manage.py", "daemon")

    given = parser.parse_args(["--set", "cluster.heartbeat_interval=1", flag, "60"]).settings_options

    assert given == ["cluster.heartbeat_interval=1", f"{setting.path}=60"]
    assert parser.parse_args([]).settings_options == []
