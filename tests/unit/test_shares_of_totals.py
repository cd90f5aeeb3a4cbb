"""Proves that partitions share the totals of a policy by need, and that shares in force never exceed the total."""

import random
from fractions import Fraction

from jobs.partitions.totals import TotalShare, change_shares, equal_shares, report_of, share_of
from tests.support.tables import each_row

HALF = Fraction(1, 2)


def confirmed(share, need=0):
    return TotalShare(Fraction(share), Fraction(share), need)


def test_shares_follow_the_needs():
    shares = {"a": confirmed(HALF, need=3), "b": confirmed(HALF, need=1)}

    lowered = change_shares(shares, requests=None, turn=0)
    assert lowered == {"b": Fraction(25, 100)}
    shares["b"] = confirmed(lowered["b"], need=1)
    assert change_shares(shares, requests=None, turn=0) == {"a": Fraction(75, 100)}


def test_a_partition_that_needs_nothing_gives_all():
    assert change_shares({"a": confirmed(HALF, 1), "b": confirmed(HALF)}, requests=None, turn=0) == {"b": 0}


def test_shares_stay_if_needs_have_hardly_changed():
    assert change_shares({"a": confirmed(1), "b": confirmed(0)}, requests=None, turn=0) == {}
    near = {"a": confirmed(Fraction(52, 100), 8), "b": confirmed(Fraction(48, 100), 8)}
    assert change_shares(near, requests=None, turn=0) == {}


def test_open_requests_are_divided_into_whole_numbers():
    shares = {name: confirmed(0, need=1) for name in "ab"}

    assert change_shares(shares, requests=3, turn=0) == {"a": Fraction(2, 3), "b": Fraction(1, 3)}


def test_partitions_take_turns_if_the_total_is_one_request():
    shares = {"a": confirmed(1, need=4), "b": confirmed(0, need=1)}

    assert change_shares(shares, requests=1, turn=0) == {}
    assert change_shares(shares, requests=1, turn=1) == {"a": 0}
    shares["a"] = confirmed(0, need=4)
    assert change_shares(shares, requests=1, turn=1) == {"b": 1}


def test_a_share_is_not_free_before_its_partition_confirms_the_lower_share():
    shares = {"a": confirmed(HALF, need=1), "b": TotalShare(Fraction(0), HALF, is_confirmed=False)}

    assert change_shares(shares, requests=None, turn=0) == {}


class Partition:
    """A partition that receives its share some time after it was sent, and ends turns of a higher share later."""

    def __init__(self, share):
        self.sent = {"number": 1, "share": [share.numerator, share.denominator]}
        self.in_force = self.open = share
        self.need = 0
        self.report = None

    def receive(self, sent):
        if sent["number"] != self.sent["number"]:
            self.sent, self.in_force = sent, Fraction(*sent["share"])
            self.open = max(self.open, self.in_force)

    def end_turns(self):
        self.open = self.in_force

    def write_report(self):
        is_lowering = self.open > self.in_force
        self.report = report_of(self.sent, self.report, need=self.need, is_lowering=is_lowering)


@each_row("seed", range(200))
def test_shares_in_force_never_exceed_the_total(seed):
    chance = random.Random(seed)
    names = "abcd"[: chance.randint(2, 4)]
    requests = chance.choice((None, 1, 2, 3, 7, 500))
    partitions = {name: Partition(share) for name, share in equal_shares(names).items()}
    sent = {name: one.sent for name, one in partitions.items()}
    # The last report that has arrived: newer reports replace older ones, and any number of reports may be late.
    received = dict.fromkeys(names)

    def control_divides():
        shares = {name: share_of(sent[name], received[name]) for name in names}
        for name, share in change_shares(shares, requests=requests, turn=chance.randint(0, 1)).items():
            sent[name] = {"number": sent[name]["number"] + 1, "share": [share.numerator, share.denominator]}

    for _ in range(400):
        one = chance.choice(names)
        partition = partitions[one]
        chance.choice(
            (
                lambda partition=partition, one=one: partition.receive(sent[one]),
                partition.end_turns,
                partition.write_report,
                lambda partition=partition, one=one: received.update({one: partition.report}),
                control_divides,
                lambda partition=partition: setattr(partition, "need", chance.choice((0, 1, 8, 64))),
            )
        )()
        assert sum(partition.open for partition in partitions.values()) <= 1

    # When all messages arrive, a partition that needs requests alone has nearly all of them.
    for partition in partitions.values():
        partition.need = 0
    partitions["a"].need = 1
    for _ in range(20):
        for name, partition in partitions.items():
            partition.receive(sent[name])
            partition.end_turns()
            partition.write_report()
            received[name] = partition.report
        control_divides()
    # Differences below a tenth are not worth a change.
    assert partitions["a"].in_force > Fraction(9, 10)
