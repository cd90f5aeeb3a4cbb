"""Proves that partitions share the limit of documents of a job: places move between them, and none is used twice."""

import random

from jobs.partitions.shares import Share, first_shares, is_limit_reached, redistribute, round_down
from tests.support.tables import each_row


def test_the_first_shares_contain_all_places_of_the_limit():
    assert first_shares(10, "abc") == {"a": 4, "b": 3, "c": 3}
    assert first_shares(1, "abc") == {"a": 1, "b": 0, "c": 0}


def test_free_places_go_to_partitions_that_lack_some():
    shares = {"a": Share(3, 3, lacks=True), "b": Share(3, 3, lacks=True), "c": Share(1, 1)}

    assert redistribute(10, shares) == {"a": 5, "b": 4}


def test_a_partition_gives_half_of_its_unused_places():
    assert redistribute(10, {"a": Share(5, 5, lacks=True), "b": Share(5, 5, free=4)}) == {"b": 3}
    assert redistribute(10, {"a": Share(9, 9, lacks=True), "b": Share(1, 1, free=1)}) == {"b": 0}


def test_places_of_a_lowered_share_are_not_free_before_it_is_confirmed():
    shares = {"a": Share(5, 5, lacks=True), "b": Share(3, 5, is_confirmed=False)}

    assert redistribute(10, shares) == {}


@each_row(
    "share",
    [Share(5, 5), Share(5, 5, rests=True, is_confirmed=False), Share(4, 4, rests=True)],
    ids=["it goes on", "its report is old", "it has fewer places than the others gave"],
)
def test_a_limit_is_not_reached_before_all_partitions_confirm_it(share):
    assert not is_limit_reached(10, {"a": Share(5, 5, lacks=True, rests=True), "b": share})


def test_a_run_without_further_documents_does_not_end_at_its_limit():
    assert not is_limit_reached(2, {"a": Share(1, 1, rests=True), "b": Share(1, 1, rests=True)})


def test_reported_numbers_are_rounded_down_to_powers_of_two():
    assert [round_down(amount) for amount in (0, 1, 3, 4, 100)] == [0, 1, 2, 4, 64]


class Partition:
    """A partition with documents. It receives its share, and reports, some time later."""

    def __init__(self, share, documents):
        self.sent = self.most = share
        self.documents, self.admitted = documents, 0
        self.report = None

    def crawl(self, chance):
        amount = min(chance.randint(0, 3), self.documents, self.most - self.admitted)
        self.admitted, self.documents = self.admitted + amount, self.documents - amount

    def receive(self, sent):
        self.sent, self.most = sent, max(self.admitted, sent)

    def send(self):
        lacks = self.admitted >= self.most and self.documents > 0
        rests = self.admitted >= self.most
        self.report = (self.sent, self.most, round_down(self.most - self.admitted), lacks, rests)

    def share(self, sent):
        if self.report is None:
            return Share(sent, sent, is_confirmed=False)
        of, most, free, lacks, rests = self.report
        return Share(sent, most, free, lacks, rests, of == sent)


@each_row("seed", range(200))
def test_partitions_use_exactly_the_limit_and_never_more(seed):
    chance = random.Random(seed)
    names = "abcd"[: chance.randint(2, 4)]
    limit = chance.randint(1, 60)
    sent = first_shares(limit, names)
    partitions = {name: Partition(sent[name], chance.choice((0, 5, 100))) for name in names}
    documents = sum(one.documents for one in partitions.values())

    for _ in range(3000):
        name = chance.choice(names)
        if chance.random() < 0.5:
            partitions[name].send()
        else:
            partitions[name].receive(sent[name])
        partitions[chance.choice(names)].crawl(chance)
        shares = {name: one.share(sent[name]) for name, one in partitions.items()}
        sent |= redistribute(limit, shares)
        assert sum(one.most for one in partitions.values()) <= limit
        if is_limit_reached(limit, shares):
            break

    assert sum(one.admitted for one in partitions.values()) == min(limit, documents)
