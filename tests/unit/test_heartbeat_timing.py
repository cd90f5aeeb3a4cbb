"""Proves that a node sends its heartbeats in time, and judges by them whether it is steady or stuck."""

from nodes.life.heartbeat_timing import HeartbeatTiming
from tests.support.cluster import seconds
from tests.support.tables import each_row

INTERVAL, TIMEOUT = 2.0, 10.0


class _Node:
    """A node with a clock that a test sets. The node has sent heartbeats for a minute."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self.now = 1000.0
        self.timing = HeartbeatTiming(
            interval=seconds(INTERVAL), timeout=seconds(timeout), give_up=seconds(60), clock=lambda: self.now
        )
        self.beat_for(60)

    def beat_for(self, duration: float) -> None:
        self.timing.progress()
        self.timing.counted(began_at=self.now)
        for _ in range(int(duration / INTERVAL)):
            self.now += INTERVAL
            self.timing.progress()
            self.timing.counted(began_at=self.now)


def test_a_node_with_heartbeats_without_a_gap_is_steady():
    node = _Node()

    assert node.timing.is_steady(seconds(60))
    assert not node.timing.is_steady(seconds(61))


def test_a_node_without_a_heartbeat_is_not_steady():
    timing = HeartbeatTiming(interval=seconds(2), timeout=seconds(10), give_up=seconds(60), clock=lambda: 0.0)

    assert not timing.is_steady(seconds(0))


@each_row("missing_beat", ["missed", "skipped"])
def test_steadiness_starts_again_after_an_uncounted_heartbeat(missing_beat: str):
    node = _Node()

    getattr(node.timing, missing_beat)()

    node.beat_for(8)
    assert not node.timing.is_steady(seconds(TIMEOUT))
    node.beat_for(2)
    assert node.timing.is_steady(seconds(TIMEOUT))


def test_a_pause_of_more_than_half_of_a_timeout_counts_as_a_gap():
    """So a node with a long timeout does not take an outage for the silence of a node with a short timeout."""
    node = _Node(timeout=60)
    node.now += 7

    node.beat_for(6)

    assert not node.timing.is_steady(seconds(10))
    assert node.timing.is_steady(seconds(20))
    node.beat_for(4)
    assert node.timing.is_steady(seconds(10))


def test_a_longer_pause_still_counts_after_a_shorter_pause():
    node = _Node()
    node.now += 20
    node.beat_for(10)
    node.now += 7
    node.beat_for(10)

    assert node.timing.is_steady(seconds(20))
    assert not node.timing.is_steady(seconds(30))


def test_small_delays_leave_a_node_steady_for_timeouts_of_two_heartbeats():
    node = _Node(timeout=4)
    for _ in range(5):
        node.now += INTERVAL + 0.01
        node.timing.counted(began_at=node.now)
    node.now += INTERVAL + 0.01

    assert node.timing.is_steady(seconds(4))


def test_a_heartbeat_without_an_answer_already_counts_as_a_pause():
    node = _Node()
    node.now += 5.1

    assert not node.timing.is_steady(seconds(10))
    assert node.timing.is_steady(seconds(20))


def test_missed_heartbeats_are_retried_soon_and_then_less_often():
    node = _Node()

    assert [node.timing.missed() for _ in range(7)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    node.timing.counted(began_at=node.now)
    assert node.timing.missed() == 0.1


def test_heartbeats_are_an_interval_apart_or_follow_a_slow_one_immediately():
    node = _Node()

    assert node.timing.counted(began_at=node.now - 0.5) == 1.5
    assert node.timing.counted(began_at=node.now - 3) == 0


def test_work_without_progress_for_a_timeout_is_stuck():
    node = _Node()

    node.now += TIMEOUT
    assert not node.timing.is_work_stuck
    node.now += 0.1
    assert node.timing.is_work_stuck
    node.timing.progress()
    assert not node.timing.is_work_stuck
