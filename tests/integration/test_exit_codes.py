"""
Proves that a command that cannot begin prints one line, and exits with 2 (invalid input) or 1 (impossible request).
"""

import socket

import pytest
from django.core.management import CommandError, call_command

from crawlctl.commandline import run

# The commands close the database connection after they check the tables.
pytestmark = pytest.mark.django_db(transaction=True)

NOWHERE = "203.0.113.7"


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def refusal(*words):
    with pytest.raises(CommandError) as refused:
        call_command(*words)
    sentence = str(refused.value)
    assert "\n" not in sentence
    return refused.value.returncode, sentence


def test_a_web_server_with_a_port_in_use_ends_with_2(taken):
    expected = (2, f"127.0.0.1:{taken}: this address is taken by another process.")

    assert refusal("serve", "--port", str(taken)) == expected


@pytest.mark.parametrize("port", ["-1", "65536", "80000000"])
def test_an_invalid_port_ends_with_2(port):
    assert refusal("serve", "--port", port) == (
        2,
        f"--port is {port}: write a number from 0 to 65535; 0 takes any free port.",
    )


@pytest.mark.parametrize("port", [[], ["--port", "0"]])
def test_an_address_of_another_machine_ends_with_2(port):
    code, sentence = refusal("serve", "--host", NOWHERE, *port)

    assert code == 2
    assert sentence.endswith("this is not an address of this machine.")


@pytest.mark.parametrize("words", [["rebalance"], ["rebalance", "--dry-run"]])
def test_a_request_without_a_main_manager_ends_with_1(words):
    expected = (1, "The cluster has no main manager now: start a manager, or wait for the next election.")

    assert refusal(*words) == expected


def test_a_name_that_is_not_utf_8_ends_with_2(capsys):
    with pytest.raises(SystemExit) as ended:
        run(["crawlctl", "job", "\udcff"])

    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == "The argument '\\udcff' is not valid UTF-8."
