"""Proves that commands start with little garbage collection, name unknown settings, and print no control characters."""

import getpass
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from django.core.exceptions import ImproperlyConfigured

from crawlctl import __version__, commandline, places
from crawlctl.commandline import unknown_variables, without_control_characters
from crawlctl.management.commands import migrate
from jobs.management.commands import archive as show_archives
from tests.support.tables import each_row

ROOT = Path(__file__).resolve().parents[2]

ASKING = """
import gc, runpy, sys
sys.argv = ["manage.py", "diffsettings"]
runpy.run_path("manage.py", run_name="__main__")
print(gc.isenabled(), gc.get_freeze_count() > 10_000)
"""


def test_a_command_collects_garbage_only_among_its_own_objects():
    process = subprocess.run([sys.executable, "-c", ASKING], cwd=ROOT, capture_output=True, text=True, check=True)

    assert process.stdout.splitlines()[-1] == "True True"


def test_an_unknown_setting_is_named_with_a_similar_one():
    given = [
        "CRAWLCTL_USERAGENT",
        "CRAWLCTL_PORT",
        "CRAWLCTL_WORTH",
        "CRAWLCTL_WORKERS",
        "CRAWLCTL_TEST_DOCUMENTS",
        "HOME",
    ]

    assert unknown_variables(given) == [
        "Warning: CRAWLCTL_USERAGENT is an unknown setting and has no effect. Did you mean CRAWLCTL_USER_AGENT?",
        "Warning: CRAWLCTL_WORKERS is an unknown setting and has no effect. crawlctl settings lists all settings.",
        "Warning: CRAWLCTL_WORTH is an unknown setting and has no effect. Did you mean CRAWLCTL_PORT?",
    ]


@each_row(
    ("arguments", "says"),
    [
        (["serv"], "Unknown command 'serv'. Did you mean serve?"),
        (["drill", "kill", "moon"], "crawlctl drill: error: argument whom: invalid choice: 'moon'"),
        (["drain", "no-node"], "crawlctl drain: error: argument node: invalid UUID value: 'no-node'"),
        (["task", "show", "x"], "crawlctl task show: error: argument task: invalid int value: 'x'"),
        (["move", "7", "--to", "x"], "crawlctl move: error: argument --to: invalid UUID value: 'x'"),
    ],
)
def test_a_command_names_an_unknown_object_in_one_line(arguments, says):
    process = subprocess.run(
        [sys.executable, "manage.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert process.returncode == 2
    assert process.stderr.startswith(says)
    assert process.stderr.count("\n") == 1


def test_a_command_with_an_unusable_setting_names_the_setting():
    environment = {**os.environ, "DATABASE_URL": "mysql://here"}
    process = subprocess.run(
        [sys.executable, "manage.py", "serve"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert process.returncode == 2
    assert process.stderr.startswith("DATABASE_URL must begin with postgresql://")


def test_changes_by_a_user_without_a_name_are_recorded_with_the_user_id(monkeypatch):
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54_321)

    commandline.name_operator()

    assert getpass.getuser() == "uid-54321"


@each_row("word", ["--version", "version"])
def test_the_version_is_that_of_crawlctl(word):
    process = subprocess.run([sys.executable, "manage.py", word], cwd=ROOT, capture_output=True, text=True, check=True)

    assert process.stdout == f"{__version__}\n"


@pytest.mark.parametrize(("given", "directory"), [("/data", "/data/crawlctl"), ("data", "~/.local/share/crawlctl")])
def test_an_installed_program_writes_to_the_data_directory_of_its_user(given, directory, monkeypatch):
    monkeypatch.setattr(places, "_IS_INSTALLED", True)

    assert places.default_data_directory({"XDG_DATA_HOME": given}) == Path(directory).expanduser()


def test_an_installed_program_without_a_home_names_the_setting(monkeypatch):
    monkeypatch.setattr(places, "_IS_INSTALLED", True)
    monkeypatch.setattr(Path, "home", mock.Mock(side_effect=RuntimeError))

    with pytest.raises(ImproperlyConfigured, match="Set CRAWLCTL_VAR"):
        places.default_data_directory({})


HOSTILE = "job \x1b]0;owned\x07 of \u202eexample.org\x9b2J,\ttidy"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show_in_a_terminal(monkeypatch, make, write):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    write(without_control_characters(make()))
    return terminal.getvalue()


def test_control_characters_in_crawled_text_do_not_reach_the_terminal(monkeypatch):
    def write(command):
        command.stdout.write(HOSTILE)
        command.stderr.write("\x1b[2J")

    shown = show_in_a_terminal(monkeypatch, lambda: show_archives.Command(no_color=True), write)

    assert shown.splitlines() == [
        r"job \u001b]0;owned\u0007 of \u202eexample.org\u009b2J," + "\ttidy",
        r"\u001b[2J",
    ]


def test_control_characters_are_kept_if_output_goes_to_a_program(capsys):
    without_control_characters(show_archives.Command()).stdout.write(HOSTILE)

    assert capsys.readouterr().out == f"{HOSTILE}\n"


def test_commands_of_django_keep_their_colours(monkeypatch):
    def write(command):
        command.stdout.write(command.style.ERROR("behind"))

    assert "\x1b[" in show_in_a_terminal(monkeypatch, lambda: migrate.Command(force_color=True), write)
