"""The evidence of a chaos run, read from its files and given to the checkers."""

from functools import cached_property

from crawlctl.demo.log import read_log
from tests.chaos import audit, checkers, stalls
from tests.chaos.cluster import BEAT, TIMEOUT
from tests.support.processes import held_by

# Upper limit of the median time until another manager is main manager (in intervals of heartbeats): the timeout of the
# old main manager, and two intervals to notice its silence.
TAKEOVER_BOUND = TIMEOUT / BEAT + 2

_SHOWN = 10


class Evidence:
    """All files of a run, each read once. The processes of the cluster get no queries."""

    def __init__(self, cluster, nemesis=None):
        self._crawls, self._freezes = cluster.crawls, cluster.freezes
        self._steps_by_hand = list(cluster.manual_steps)
        self._nemesis = nemesis
        self.log = audit.read(cluster.directory / "audit.jsonl")
        self.stalls = stalls.read_stalls(cluster.directory / "stalls")

    @cached_property
    def fetches(self):
        """Return the fetches by crawl."""
        return [checkers.fetches(read_log(crawl.starts), read_log(crawl.ends)) for crawl in self._crawls]

    @cached_property
    def held(self):
        return [held_by(crawl.output) for crawl in self._crawls]

    @cached_property
    def lost(self):
        both = zip(self._crawls, self.held, strict=True)
        return [url for crawl, held in both for url in checkers.lost(crawl.site.documents, held)]

    @cached_property
    def extra(self):
        both = zip(self._crawls, self.held, strict=True)
        return [url for crawl, held in both for url in checkers.extra(crawl.site.documents, held)]

    @cached_property
    def overlaps(self):
        return [checkers.overlaps(fetches, self._freezes) for fetches in self.fetches]

    @cached_property
    def paces(self):
        return [
            checkers.pace(
                fetches, gap=crawl.gap, open_requests=crawl.open_requests, freezes=self._freezes, stalls=self.stalls
            )
            for crawl, fetches in zip(self._crawls, self.fetches, strict=True)
        ]

    @cached_property
    def stale(self):
        return checkers.stale_writes(self.log)

    @cached_property
    def misfires(self):
        """Return starts of jobs outside their schedules, and scheduled starts that did not happen."""
        return [
            found
            for crawl in self._crawls
            if crawl.openings
            for found in checkers.misfires(self.log, job=crawl.job_id, openings=crawl.openings)
        ]

    @cached_property
    def takeovers(self):
        """Return (loss, heartbeat intervals until a successor) for main managers that ended while no other fault was active."""
        if self._nemesis is None:
            return []
        found = checkers.takeovers(self.log, self._nemesis.main_losses(), beat=BEAT)
        return [(loss, beats) for loss, beats in found if self._nemesis.was_alone(loss, until=loss.at + beats * BEAT)]

    def verdict(self):
        return checkers.Verdict(
            lost=len(self.lost),
            extra=len(self.extra),
            overlap=sum(len(found.wrong) for found in self.overlaps),
            overlap_frozen=sum(len(found.frozen) for found in self.overlaps),
            stale_accepted=len(self.stale),
            stale_refused=checkers.refused(self.log),
            pace=max((found.percent for found in self.paces), default=0.0),
            misfires=len(self.misfires),
            takeovers=[beats for _, beats in self.takeovers],
            bound=TAKEOVER_BOUND,
            steps_by_hand=len(self._steps_by_hand),
        )

    def sizes(self):
        """Return the size of the run: the numbers of documents, requests, writes and stalls."""
        requests = sum(map(len, self.fetches))
        return {
            "documents": sum(len(crawl.site.documents) for crawl in self._crawls),
            "requests": requests,
            "audited_writes": len(self.log),
            "stalls_of_the_machine": len(self.stalls),
            "least_gap_percent": min(
                (
                    round(100 * pace.least_gap / crawl.gap)
                    for crawl, pace in zip(self._crawls, self.paces, strict=True)
                    if pace.worst
                ),
                default=0,
            ),
        }

    def findings(self):
        """Yield the findings as lines: at most ten lost or extra documents, stale writes, and overlaps of each site."""
        yield from (f"lost: {url}" for url in self.lost[:_SHOWN])
        yield from (f"in an output and not on the site: {url}" for url in self.extra[:_SHOWN])
        for found in self.overlaps:
            yield from (f"overlap: {one} and {two}" for one, two in found.wrong[:_SHOWN])
            yield from (
                f"overlap with what a frozen process had sent: {one} and {two}" for one, two in found.frozen[:_SHOWN]
            )
        yield from (f"stale accepted: {stale}" for stale in self.stale[:_SHOWN])
        for crawl, found in zip(self._crawls, self.paces, strict=True):
            if found.percent > 100:
                yield f"pace of site {crawl.number}: {found.percent:.0f} %, {found.most_open} open, worst: {found.worst}"
        yield from self.misfires
        yield from (f"takeover after {beats:.1f} beats: {loss.fault}" for loss, beats in self.takeovers)
        yield from (f"by hand: {step}" for step in self._steps_by_hand)
