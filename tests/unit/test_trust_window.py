"""Proves that a node stops its requests in time while the database does not confirm its heartbeats."""

from nodes.life.trust_window import TrustWindow, seconds_since_boot
from tests.support.cluster import seconds


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def opened_window() -> tuple[TrustWindow, _Clock]:
    clock = _Clock()
    window = TrustWindow(timeout=seconds(12), clock=clock)
    window.renew(began_at=clock.now)
    return window, clock


def test_before_the_first_good_heartbeat_no_request_may_begin():
    window = TrustWindow(timeout=seconds(12))

    assert not window.may_begin
    assert window.must_close


def test_requests_start_until_two_thirds_of_the_timeout_and_end_at_five_sixths():
    window, clock = opened_window()

    def after(passed: float) -> tuple[bool, bool]:
        clock.now = 1000.0 + passed
        return window.may_begin, window.must_close

    assert after(7.9) == (True, False)
    assert after(8) == (False, False)
    assert after(9.9) == (False, False)
    assert after(10) == (False, True)


def test_trust_counts_from_the_moment_at_which_a_good_heartbeat_was_sent():
    window, clock = opened_window()
    clock.now += 20

    window.renew(began_at=clock.now - 9)

    assert (window.may_begin, window.must_close) == (False, False)


def test_a_late_answer_does_not_shorten_the_trust():
    window, clock = opened_window()

    window.renew(began_at=clock.now - 100)

    assert window.may_begin


def test_the_clock_of_trust_never_goes_back():
    assert seconds_since_boot() <= seconds_since_boot()
