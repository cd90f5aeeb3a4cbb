"""Proves how a command starts: its garbage collection, and its report of unknown variables."""

import subprocess
import sys
from pathlib import Path

import pytest

from crawlctl.commandline import unknown_variables

ROOT = Path(__file__).resolve().parents[2]

ASKING = """
import gc, runpy, sys
sys.argv = ["manage.py", "diffsettings"]
runpy.run_path("manage.py", run_name="__main__")
print(gc.isenabled(), gc.get_freeze_count() > 10_000)
"""


def test_a_command_collects_garbage_among_what_it_makes_itself():
    asked = subprocess.run([sys.executable, "-c", ASKING], cwd=ROOT, capture_output=True, text=True, check=True)

    assert asked.stdout.splitlines()[-1] == "True True"


def test_a_variable_that_is_no_setting_is_named_with_the_nearest():
    given = ["CRAWLCTL_USERAGENT", "CRAWLCTL_PORT", "CRAWLCTL_WORTH", "CRAWLCTL_TEST_DOCUMENTS", "HOME"]

    assert unknown_variables(given) == [
        "Warning: CRAWLCTL_USERAGENT is an unknown setting and has no effect. Did you mean CRAWLCTL_USER_AGENT?",
        "Warning: CRAWLCTL_WORTH is an unknown setting and has no effect. Did you mean CRAWLCTL_PORT?",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serv"], "Unknown command 'serv'. Did you mean serve?"),
        (["drill", "kill", "nobody"], "manage.py drill: error: argument whom: invalid choice: 'nobody'"),
        (["drain", "no-node"], "manage.py drain: error: argument node: invalid UUID value: 'no-node'"),
        (["move", "7", "--to", "x"], "manage.py move: error: argument --to: invalid UUID value: 'x'"),
    ],
)
def test_a_command_names_what_it_does_not_know_in_one_line(arguments, says):
    asked = subprocess.run(
        [sys.executable, "manage.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert asked.returncode == 2
    assert asked.stderr.startswith(says)
    assert asked.stderr.count("\n") == 1
