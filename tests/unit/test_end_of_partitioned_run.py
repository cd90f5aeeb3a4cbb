"""Proves that two equal rounds of questions show that a run of several partitions has ended."""

import random
from collections import Counter

from jobs.partitions.end_of_run import Figures, has_ended, is_settled
from tests.support.tables import each_row

IDLE = Figures(quiet=True, sent={}, applied={})


def test_two_equal_settled_rounds_prove_the_end_of_a_run():
    figures = {"a": Figures(True, {"b": 2}, {}), "b": Figures(True, {}, {"a": 2})}

    assert not has_ended(None, figures)
    assert has_ended(figures, figures)


@each_row(
    "of_a, of_b",
    [
        (Figures(False, {}, {}), IDLE),
        (Figures(True, {"b": 1}, {}), IDLE),
        (IDLE, Figures(True, {}, {"a": 1})),
    ],
    ids=["a partition has work", "a reference is on its way", "a partition was restored"],
)
def test_partitions_with_work_references_or_a_restore_are_not_settled(of_a, of_b):
    assert not is_settled({"a": of_a, "b": of_b})


def test_a_change_between_two_rounds_does_not_prove_the_end_of_a_run():
    before = {"a": Figures(True, {"b": 1}, {}), "b": Figures(True, {}, {"a": 1})}
    after = {"a": Figures(True, {"b": 2}, {}), "b": Figures(True, {}, {"a": 2})}

    assert not has_ended(before, after)
    assert has_ended(after, after)


class Crawl:
    """Partitions that process documents and send references in random order. They answer a round at different times."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.names = "abcd"[: self.chance.randint(2, 4)]
        self.work = Counter({"a": 3})
        self.sent = {name: Counter() for name in self.names}
        self.applied = {name: Counter() for name in self.names}
        self.travelling = []
        self.documents_left = 60

    @property
    def has_ended(self):
        return not self.travelling and not +self.work

    def step(self):
        name = self.chance.choice(self.names)
        if self.travelling and self.chance.random() < 0.3:
            # Connections differ in speed, and each keeps the order of its references. The references here are equal, so
            # any may arrive next.
            source, target = self.travelling.pop(self.chance.randrange(len(self.travelling)))
            self.applied[target][source] += 1
            self.work[target] += 1
        elif self.work[name]:
            self.work[name] -= 1
            for _ in range(self.chance.choice((0, 0, 1, 2))):
                if self.documents_left:
                    self.documents_left -= 1
                    target = self.chance.choice(self.names)
                    if target == name:
                        self.work[name] += 1
                    else:
                        self.sent[name][target] += 1
                        self.travelling.append((name, target))

    def figures_of(self, name):
        return Figures(not self.work[name], dict(self.sent[name]), dict(self.applied[name]))

    def ask_all(self):
        """Ask all partitions, one after the other, while the crawl goes on."""
        figures = {}
        for name in self.chance.sample(self.names, len(self.names)):
            for _ in range(self.chance.randint(0, 3)):
                self.step()
            figures[name] = self.figures_of(name)
        return figures


@each_row("seed", range(300))
def test_rounds_find_the_end_of_every_crawl_and_never_before_it(seed):
    crawl, before = Crawl(seed), None
    for _ in range(1000):
        figures = crawl.ask_all()
        if has_ended(before, figures):
            assert crawl.has_ended
            return
        before = figures if is_settled(figures) else None
    raise AssertionError("the end was not found")
