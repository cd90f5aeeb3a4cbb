"""Proves that the chaos test of partitions reports a repeated request unless a fault explains it."""

from crawlctl.demo.log import LoggedRequest
from tests.chaos.repeats import Disturbance, unexplained_repeats
from tests.support.tables import each_row

PAGE = "http://one.example/page"
KILL = Disturbance("worker", "a", at=1000.0, until=1001.0)
RESTORE = Disturbance("restore", "a", at=1000.0, until=1001.0, since=500.0)


def request(at, status=200):
    return LoggedRequest(int(at * 1e9), "one.example", "/page", status, 1, "GET", "crawlctl")


def always(*_):
    return True


@each_row(
    "moments, disturbances, unexplained",
    [
        ([990, 1005], [KILL], []),
        ([900, 1005], [KILL], [PAGE]),
        ([900, 1005], [RESTORE], []),
        ([990, 999], [KILL], [PAGE]),
        ([990, 1005, 1010], [KILL], [PAGE]),
        ([990, 1005], [], [PAGE]),
    ],
    ids=["in flight", "stored long before", "not in the backup", "before the kill", "twice", "nothing happened"],
)
def test_a_fault_explains_one_repeat_of_a_request_that_it_may_have_lost(moments, disturbances, unexplained):
    assert unexplained_repeats(map(request, moments), disturbances, always) == unexplained


def test_a_fault_in_a_partition_without_the_host_explains_no_repeat():
    def had(partition, host, since, until):
        return (partition, host) == ("b", "one.example") and since < 990 < until

    repeated = [request(990), request(1005)]

    assert unexplained_repeats(repeated, [KILL], had) == [PAGE]
    assert unexplained_repeats(repeated, [Disturbance("worker", "b", 1000.0, 1001.0)], had) == []


def test_a_repeat_after_a_server_error_needs_no_fault():
    assert unexplained_repeats([request(1, status=503), request(2)], [], always) == []
