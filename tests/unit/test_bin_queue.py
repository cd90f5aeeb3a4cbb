"""Proves that a worker serves a bin in order, at its pace, and within the open requests of its turns."""

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jobs.loops.worker.host_queue import BinQueue, PacedBin
from jobs.queue.pace.close import Pace, Use
from jobs.queue.take import PaceTaken, TurnTaken
from jobs.throttling.limits import Limits
from tests.support.tables import each_row


def make_turn(turn_id, documents, *, gap=0.0, wait=0.0, bytes_per_second=None, **facts):
    """
    Return a turn as a worker takes it. Documents are names here, because the queue reads none of their other fields.
    """
    usual = {"batch_id": turn_id, "bin": "a.example", "follows": None, "requests": 2, "is_known": True}
    pace = PaceTaken(1, gap, bytes_per_second, wait)
    return TurnTaken(id=turn_id, documents=tuple(documents), pace=pace, **(usual | facts))


def make_queue():
    return BinQueue(PacedBin(1))


def begin_all(queue, *, now=0.0):
    begun = []
    while queue.may_begin:
        begun.append(queue.begin(now=now))
    return begun


def test_documents_start_only_up_to_the_limit_of_open_requests():
    queue = make_queue()
    queue.add(make_turn(1, "abc", requests=2), now=0.0)

    begun = begin_all(queue)
    queue.end(begun[0][0])

    assert [name for _, name in begun] == ["a", "b"]
    assert [name for _, name in begin_all(queue)] == ["c"]


def test_starts_are_a_gap_apart_and_the_first_waits_for_its_start_time():
    queue = make_queue()
    queue.add(make_turn(1, "ab", gap=1.5, wait=4.0), now=100.0)

    assert queue.next_start == 104.0
    queue.begin(now=104.2)
    assert queue.next_start == 105.7


def test_a_bin_with_a_gap_awaits_documents_until_it_has_two_turns():
    queue = make_queue()
    queue.add(make_turn(1, "abc", gap=1.0), now=0.0)
    alone = queue.awaited
    queue.add(make_turn(2, "def", gap=1.0, follows=1, requests=0), now=0.0)
    followed = queue.awaited
    turn, _ = queue.begin(now=0.0)
    queue.end(turn)

    assert (alone, followed, queue.awaited) == (3, 0, 1)


def test_a_bin_without_a_gap_or_with_a_single_document_awaits_nothing():
    unpaced, single = make_queue(), make_queue()
    unpaced.add(make_turn(1, "abc"), now=0.0)
    single.add(make_turn(1, "a", gap=1.0), now=0.0)

    assert (unpaced.awaited, single.awaited, make_queue().awaited) == (0, 0, 0)


def test_a_closing_turn_reports_each_request_of_a_host_and_parents_once():
    queue, parent = make_queue(), PacedBin(9)
    queue.add(make_turn(1, "ab"), parents=(parent,), now=0.0)
    for turn, _ in begin_all(queue):
        for paced in queue.paces_of(turn):
            paced.count_request(now=0.0, has_turn=True)
            paced.count_bytes(1000, paid=0.0, now=0.0)
        queue.end(turn)

    (closed,) = queue.close_ended()

    assert closed.use == closed.uses_above[9] == Use(2, 2000)
    queue.add(make_turn(2, ""), parents=(parent,), now=1.0)
    assert queue.close_ended()[0].use == Use()


def test_a_closed_turn_reports_the_time_of_its_documents():
    queue = make_queue()
    queue.add(make_turn(1, "abc"), now=0.0)
    for after in (0.5, 1.0, None):
        turn, _ = queue.begin(now=1.0)
        queue.end(turn, after=after)

    assert queue.close_ended()[0].use == Use(ended=2, seconds=1.5)


def test_a_turn_is_closed_when_its_last_document_has_ended():
    queue = make_queue()
    queue.add(make_turn(1, "ab"), now=0.0)
    (first, _), (second, _) = begin_all(queue, now=1.0)

    queue.end(first)
    assert queue.close_ended() == []
    queue.end(second)
    (closed,) = queue.close_ended()

    assert (closed.id, closed.pace) == (1, Pace(last_start=1.0))
    assert queue.turns == []


def test_a_turn_without_a_request_reports_no_pace():
    queue = make_queue()
    queue.add(make_turn(1, "ab"), now=0.0)

    assert queue.drop_waiting(lambda name: True) == ["a", "b"]

    (closed,) = queue.close_ended()
    assert closed.pace is None


def test_a_successor_waits_and_then_gets_the_requests_of_its_predecessor():
    queue = make_queue()
    queue.add(make_turn(1, "ab", requests=2), now=0.0)
    queue.add(make_turn(2, "cd", requests=0, follows=1), now=0.0)
    first, second = begin_all(queue)

    # Open requests of the first turn count against the second turn, which has inherited its place.
    assert [closed.id for closed in queue.close_ended()] == [1]
    assert begin_all(queue) == []
    queue.end(first[0])
    assert [name for _, name in begin_all(queue)] == ["c"]
    queue.end(second[0])
    assert [name for _, name in begin_all(queue)] == ["d"]


def test_a_successor_that_arrives_late_gets_the_unused_requests():
    queue = make_queue()
    queue.add(make_turn(1, "a", requests=2), now=0.0)
    ((turn, _),) = begin_all(queue)
    queue.end(turn)
    assert [closed.id for closed in queue.close_ended()] == [1]

    queue.add(make_turn(2, "bcd", requests=0, follows=1), now=1.0)

    assert [name for _, name in begin_all(queue)] == ["b", "c"]


def test_a_successor_without_requests_is_not_served():
    queue = make_queue()

    assert queue.add(make_turn(2, "ab", requests=0, follows=1), now=0.0) == ["a", "b"]

    assert begin_all(queue) == []
    assert [(closed.id, closed.follows) for closed in queue.close_ended()] == [(2, 1)]


def test_an_empty_turn_passes_on_its_inherited_requests():
    queue = make_queue()
    queue.add(make_turn(1, "a", requests=1), now=0.0)
    queue.add(make_turn(2, "b", requests=0, follows=1), now=0.0)
    queue.add(make_turn(3, "cd", requests=0, follows=2), now=0.0)
    queue.drop_waiting(lambda name: name == "b")

    assert queue.close_ended() == []
    ((first, _),) = begin_all(queue)
    queue.end(first)

    assert [closed.id for closed in queue.close_ended()] == [1, 2]
    assert [name for _, name in begin_all(queue)] == ["c"]


def test_dropping_some_documents_keeps_the_order_of_the_remaining_ones():
    queue = make_queue()
    queue.add(make_turn(1, "abcd", requests=1), now=0.0)

    assert queue.drop_waiting(lambda name: name in "bd") == ["b", "d"]

    ((turn, name),) = begin_all(queue)
    queue.end(turn)
    assert (name, [name for _, name in begin_all(queue)]) == ("a", ["c"])


def test_all_bins_of_a_parent_share_the_pace_of_the_parent():
    address = PacedBin(9)
    address.take_up(PaceTaken(9, 1.0, None, 0.0), now=0.0)
    one, other = make_queue(), make_queue()
    one.add(make_turn(1, "ab"), parents=(address,), now=0.0)
    other.add(make_turn(2, "cd"), parents=(address,), now=0.0)

    one.begin(now=10.0)

    assert one.next_start == other.next_start == 11.0


def test_a_closing_turn_reports_the_last_request_of_each_bin():
    address = PacedBin(9)
    address.take_up(PaceTaken(9, 3.0, None, 0.0), now=0.0)
    queue = make_queue()
    queue.add(make_turn(1, "a", gap=1.0), parents=(address,), now=0.0)
    turn, _ = queue.begin(now=10.0)
    queue.end(turn)

    (closed,) = queue.close_ended()

    assert (closed.pace, closed.parents) == (Pace(10.0), {9: Pace(10.0)})


def test_open_requests_of_a_parent_never_exceed_its_limit():
    address = PacedBin(9)
    address.take_up(PaceTaken(9, 0.5, None, 0.0, requests=1), now=0.0)
    one, other = make_queue(), BinQueue(PacedBin(2))
    one.add(make_turn(1, "ab"), parents=(address,), now=0.0)
    other.add(make_turn(2, "cd"), parents=(address,), now=0.0)

    turn, _ = one.begin(now=0.0)

    assert not one.may_begin
    assert not other.may_begin
    one.end(turn)
    assert other.may_begin


def test_a_parent_obeys_an_edited_limit_of_open_requests():
    address = PacedBin(9)
    address.take_up(PaceTaken(9, 0.5, None, 0.0, requests=1), now=0.0)
    queue = make_queue()
    queue.add(make_turn(1, "abc"), parents=(address,), now=0.0)
    queue.begin(now=0.0)

    address.apply_limits(Limits(2, 0.5))

    assert [name for _, name in begin_all(queue, now=1.0)] == ["b"]


def test_looser_limits_apply_immediately_and_are_not_reported_as_stricter():
    queue = make_queue()
    queue.add(make_turn(1, "ab", gap=3600.0), now=0.0)
    queue.begin(now=10.0)

    assert not queue.paced.apply_limits(Limits(2, 1.0))

    assert queue.next_start == 11.0


def test_a_new_crawl_delay_of_a_source_holds_under_looser_limits():
    queue = make_queue()
    queue.add(make_turn(1, "ab", gap=3600.0), now=0.0)
    queue.begin(now=10.0)
    queue.paced.apply_crawl_delay(5.0)

    queue.paced.apply_limits(Limits(2, 1.0))

    assert queue.next_start == 15.0


@each_row("limits", [Limits(2, 2.0, 500.0), Limits(2, 1.0, 100.0)])
def test_stricter_limits_are_reported_as_stricter(limits):
    queue = make_queue()
    queue.add(make_turn(1, "ab", gap=1.0, bytes_per_second=500.0), now=0.0)

    assert queue.paced.apply_limits(limits)


class BinAtWork(RuleBasedStateMachine):
    """A state machine of Hypothesis in which turns come, follow each other, end and are dropped in any order."""

    def __init__(self):
        super().__init__()
        self.queue, self.now, self.ids = make_queue(), 0.0, count(1)
        self.allowed = 0
        self.requests, self.expected, self.begun, self.closed = {}, [], [], set()
        self.open, self.starts, self.chain_end = [], [], None

    @rule(documents=st.integers(1, 4), requests=st.integers(1, 3))
    def take_a_turn(self, documents, requests):
        self._add(documents, requests=requests, follows=None)
        self.allowed += requests

    @precondition(lambda self: self.chain_end is not None)
    @rule(documents=st.integers(1, 4))
    def take_a_follower(self, documents):
        self._add(documents, requests=0, follows=self.chain_end)

    def _add(self, documents, *, requests, follows):
        turn_id = next(self.ids)
        names = [f"{turn_id}/{n}" for n in range(documents)]
        turn = make_turn(turn_id, names, requests=requests, follows=follows, gap=0.5)
        assert self.queue.add(turn, now=self.now) == []
        self.expected += names
        self.requests[turn_id] = requests
        self.chain_end = turn_id

    @rule()
    def begin(self):
        self.now = max(self.now, self.queue.next_start)
        if self.queue.may_begin:
            turn, name = self.queue.begin(now=self.now)
            self.open.append(turn)
            self.starts.append(self.now)
            assert name == self.expected.pop(0)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def end(self, data):
        self.queue.end(self.open.pop(data.draw(st.integers(0, len(self.open) - 1))))

    @rule()
    def close(self):
        closed = {turn.id for turn in self.queue.close_ended()}
        assert not closed & self.closed
        self.closed |= closed

    @rule(data=st.data())
    def drop(self, data):
        turn = data.draw(st.sampled_from(sorted(self.requests) or [0]))
        dropped = self.queue.drop_waiting(lambda name: name.startswith(f"{turn}/"))
        assert dropped == [name for name in self.expected if name.startswith(f"{turn}/")]
        self.expected = [name for name in self.expected if name not in dropped]

    @invariant()
    def no_more_is_open_than_was_ever_given(self):
        assert len(self.open) == self.queue.in_flight <= self.allowed

    @invariant()
    def starts_keep_their_gap(self):
        assert all(later - earlier >= 0.5 for earlier, later in zip(self.starts, self.starts[1:], strict=False))

    @invariant()
    def no_turn_has_fewer_than_nothing_open(self):
        assert all(turn.open >= 0 and turn.left >= 0 for turn in self.queue.turns)

    def teardown(self):
        """End every taken document, and check that every turn is closed exactly once."""
        for _ in range(500):
            self.begin()
            while self.open:
                self.queue.end(self.open.pop())
            self.close()
            if not self.expected:
                break
        assert self.expected == []
        assert self.closed == set(self.requests)


TestBinAtWork = BinAtWork.TestCase
TestBinAtWork.settings = settings(max_examples=60, stateful_step_count=30)
