"""Proves that the example of docs/distributed-jobs.md behaves as the page says."""

import re
from pathlib import Path

from tests.support.waiting import wait_until

_DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "distributed-jobs.md"


def test_the_example_sends_each_report_once_even_if_a_process_ends(zookeeper):
    (example,) = re.findall(r"```python\n(.*?)```", _DOCUMENT.read_text(), re.DOTALL)
    named = {"__name__": "example"}
    exec(compile(example, _DOCUMENT, "exec"), named)
    sent = []

    def manager(node):
        return named["manager"](
            f"127.0.0.1:{zookeeper.port}",
            "/jobs/reports",
            node,
            lambda: ["ann", "bob", "cy"],
            lambda customer: sent.append((node, customer)),
        )

    with manager("app-2") as last:
        with manager("app-1"):
            wait_until(lambda: {node for node, _customer in sent} == {"app-1", "app-2"})
        left_at = len(sent)
        wait_until(lambda: {customer for _node, customer in sent[left_at:]} == {"ann", "bob", "cy"})

    assert {node for node, _customer in sent[left_at:]} == {"app-2"}
    assert last.status().jobs["reports"].runs.failures == 0
