"""Proves that a command forked by tests behaves like one in a new Python, and starts in a fraction of the time."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.support import forking
from tests.support.forking import ROOT

FACTS = """
import json, os, signal, sys, threading
from django.conf import settings
from django.db import connections

# The first use of the connection adds defaults to the settings.
database = connections["default"].settings_dict
values = {name: repr(getattr(settings, name)) for name in dir(settings) if name.isupper()}
print(json.dumps({
    "settings": {name: value for name, value in values.items() if " at 0x" not in value},
    "database": {name: repr(database[name]) for name in ("HOST", "NAME", "PORT", "OPTIONS")},
    "environment": dict(os.environ),
    "directory": os.getcwd(),
    "path": sys.path,
    "arguments": sys.argv[:2],
    "signals": {number.name: str(signal.getsignal(number)).split(" at ")[0] for number in signal.Signals},
    "threads": threading.active_count(),
    "files": sorted(os.listdir("/proc/self/fd"))[:3],
    "leads its session": os.getsid(0) == os.getpid(),
}))
"""
NOWHERE = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing"}
SHELL = [sys.executable, "manage.py", "shell", "--no-imports", "-c"]


def start(*words, **environment):
    env = {**os.environ, **NOWHERE, **environment}
    return forking.start([sys.executable, "manage.py", *words], stdout=subprocess.PIPE, env=env, start_new_session=True)


def output_of(process):
    with process.stdout:
        output = process.stdout.read()
    assert process.wait(60) == 0
    return output


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"CRAWLCTL_NODE_TIMEOUT": "7", "CRAWLCTL_CONNECTORS": "tests.support.scripted:MODEL", "TZ": "Asia/Tokyo"},
        {"CRAWLCTL_DEBUG": "1"},
        {"CRAWLCTL_TLS": "1", "CRAWLCTL_LOG_JSON": "1", "CRAWLCTL_VAR": "{tmp}/var"},
        {"PYTHONHASHSEED": "1", "LC_ALL": "C"},
        {"PYTHONPATH": f"{{tmp}}/modules:{ROOT}/tests/support/site_names"},
    ],
    ids=[
        *("usual", "other settings", "a setting that imports read", "settings of pages and logs"),
        *("another interpreter", "further modules"),
    ],
)
def test_a_forked_command_has_the_same_settings_as_a_new_python(environment, tmp_path):
    environment = {name: value.replace("{tmp}", str(tmp_path)) for name, value in environment.items()}
    env = {**os.environ, **NOWHERE, **environment}
    new = subprocess.run([*SHELL, FACTS], cwd=ROOT, env=env, capture_output=True, check=True, start_new_session=True)

    forked = output_of(start("shell", "--no-imports", "-c", FACTS, **environment))

    forked, expected = json.loads(forked), json.loads(new.stdout)
    assert {name for name, value in expected["settings"].items() if forked["settings"].get(name) != value} == set()
    assert forked == expected


def test_a_forked_command_has_its_own_random_numbers_and_identifiers():
    draw = "import random, uuid; print(random.random(), uuid.uuid4())"

    draws = [output_of(start("shell", "--no-imports", "-c", draw)).split() for _ in range(2)]

    assert draws[0][0] != draws[1][0]
    assert draws[0][1] != draws[1][1]


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('no')", 1),
        ("raise ValueError", 1),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM),
        ("import os; os._exit(7)", 7),
    ],
)
def test_the_end_of_a_forked_command_is_reported_as_popen_does(program, code):
    process = start("shell", "--no-imports", "-c", program)

    with process.stdout:
        assert process.wait(60) == code
    assert process.poll() == code


def test_a_forked_command_finishes_its_threads_and_its_exit_handlers():
    program = """
import atexit, threading, time
atexit.register(print, "handled")
threading.Thread(target=lambda: (time.sleep(0.2), print("joined"))).start()
"""

    output = output_of(start("shell", "--no-imports", "-c", program))

    assert output.split() == [b"joined", b"handled"]


def test_a_forked_command_shows_its_own_command_line_and_can_be_killed():
    process = start("shell", "--no-imports", "-c", "print('here', flush=True); import time; time.sleep(600)")

    with process.stdout:
        process.stdout.readline()
        assert [word for word in psutil.Process(process.pid).cmdline() if word][1:3] == ["manage.py", "shell"]
        process.kill()

        assert process.wait(60) == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)


def test_a_forked_command_starts_in_a_third_of_the_time_of_a_new_python():
    measure = "import resource; u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime)"
    env = {**os.environ, **NOWHERE}
    new = subprocess.run([*SHELL, measure], cwd=ROOT, env=env, capture_output=True, check=True)

    forked = output_of(start("shell", "--no-imports", "-c", measure))

    assert float(forked) < float(new.stdout) / 3
