"""Proves that a process is never mistaken for another one with its pid, and that its end is noticed."""

import os
import subprocess
import sys

import pytest

from nodes.life import identity
from nodes.life.identity import NodeIdentity, is_process_gone
from nodes.lifecycle import NodeKind
from tests.support.cluster import TIMEOUT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which process this is")


def this_process() -> NodeIdentity:
    return NodeIdentity.of_this_process(kind=NodeKind.WORKER, scope="cluster", name="w", timeout=TIMEOUT)


def start_of(pid: int) -> int:
    return int(identity._stat_of(pid)[identity._START_TICKS])


def test_this_process_is_running():
    me = this_process()

    assert me.pid == os.getpid()
    assert not is_process_gone(pid=me.pid, process_start=me.process_start)


def test_no_two_identities_have_the_same_id():
    assert this_process().id != this_process().id


def test_a_killed_process_counts_as_ended_before_its_exit_status_is_read():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = start_of(child.pid)
    assert not is_process_gone(pid=child.pid, process_start=started)

    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie

    assert is_process_gone(pid=child.pid, process_start=started)
    child.communicate()
    assert is_process_gone(pid=child.pid, process_start=started)


def test_a_process_with_a_reused_pid_is_not_taken_for_the_earlier_process():
    me = this_process()

    assert is_process_gone(pid=me.pid, process_start=me.process_start - 1)


def test_a_process_with_an_unknown_start_is_not_judged():
    assert not is_process_gone(pid=2**22 + 1, process_start=0)


def test_pids_are_compared_only_within_one_boot_and_one_namespace():
    me = this_process()

    assert me.shares_processes_with(boot_id=me.boot_id, pid_namespace=me.pid_namespace)
    assert not me.shares_processes_with(boot_id="another", pid_namespace=me.pid_namespace)
    assert not me.shares_processes_with(boot_id=me.boot_id, pid_namespace="pid:[1]")
