"""Proves by the sites' own logs that limits over many hosts, and limits of bytes, are never exceeded by a request."""

from contextlib import ExitStack

import pytest

from crawlctl.demo.log import read_log
from tests.chaos.checkers import fetches
from tests.support.factories import make_policy
from tests.support.pace.rules import LeastGap, MostBytes, MostOpen, MostStarts, broken
from tests.support.processes import ended, serve_site


class LoggedSite:
    """A site that logs the start and the end of each request."""

    def __init__(self, site, ends):
        self.site, self.ends = site, ends
        self.url = site.start_url

    @property
    def hosts(self):
        return frozenset(origin.removeprefix("http://") for origin in self.site.plan.origins)

    def fetches(self):
        # Reading `lines` flushes the logs of the site to their files.
        assert self.site.lines
        return fetches(read_log(self.site.log), read_log(self.ends))


@pytest.fixture
def serve_logged(tmp_path):
    with ExitStack() as opened:

        def start(name="site", **options):
            log, ends = tmp_path / f"{name}.log", tmp_path / f"{name}.ends"
            return LoggedSite(opened.enter_context(serve_site(log, traps=0, ends=ends, **options)), ends)

        yield start


def assert_kept(sites, *rules):
    found = broken([fetch for site in sites for fetch in site.fetches()], rules)
    assert not found, "\n".join(map(str, found[:10]))


def make_policy_for_all_hosts(**limits):
    """Create an administrator's policy for all bins of the cluster."""
    return make_policy("everywhere", applies_everywhere=True, **{"open_requests": 100, "min_gap": 0.0, **limits})


def test_a_rate_of_the_whole_cluster_holds_for_two_crawls_on_many_hosts(machine, serve_logged):
    make_policy_for_all_hosts(total_starts=10, total_period="second")
    sites = [serve_logged(name, pages=20, hosts=3) for name in ("one", "other")]

    crawls = [machine.start_crawl(site.url, "--scope", "any", "--delay", 0, "--workers", 2) for site in sites]

    assert [ended(crawl).counts["indexed"] for crawl in crawls] == [20, 20]
    together = sites[0].hosts | sites[1].hosts
    assert_kept(sites, LeastGap(seconds=0.1, hosts=together), MostStarts(most=10, within=1.0, hosts=together))


def test_open_requests_of_the_cluster_never_exceed_its_limit(machine, serve_logged):
    make_policy_for_all_hosts(total_open_requests=3)
    sites = [serve_logged(name, pages=60, hosts=3, latency_ms=30) for name in ("one", "other")]

    crawls = [machine.start_crawl(site.url, "--scope", "any", "--delay", 0, "--workers", 2) for site in sites]

    assert [ended(crawl).counts["indexed"] for crawl in crawls] == [60, 60]
    assert_kept(sites, MostOpen(most=3, hosts=sites[0].hosts | sites[1].hosts))


def test_all_hosts_together_send_at_most_their_limit_in_ten_seconds(machine, serve_logged):
    make_policy_for_all_hosts(total_bytes_per_second=60_000)
    sites = [serve_logged(name, pages=30, hosts=2) for name in ("one", "other")]

    crawls = [machine.start_crawl(site.url, "--scope", "any", "--delay", 0, "--workers", 2) for site in sites]

    assert [ended(crawl).counts["indexed"] for crawl in crawls] == [30, 30]
    assert_kept(sites, MostBytes(per_second=60_000, hosts=sites[0].hosts | sites[1].hosts))
    assert sum(fetch.size for site in sites for fetch in site.fetches()) > 10 * 60_000


def test_hosts_at_one_ip_address_share_its_limit_from_the_first_request(machine, serve_logged):
    make_policy_for_all_hosts(open_requests=1, min_gap=0.1, per_address=True)
    # One address with a port for each host. A page takes longer than the gap, so the gap alone does not keep the limit
    # of one open request.
    sites = [serve_logged(name, pages=12, latency_ms=150) for name in ("one", "other", "third")]

    crawl = machine.crawl(*(site.url for site in sites), "--delay", 0, "--workers", 2)

    assert crawl.counts["indexed"] == 36
    together = frozenset().union(*(site.hosts for site in sites))
    assert_kept(sites, LeastGap(seconds=0.1, hosts=together), MostOpen(most=1, hosts=together))


def test_a_host_never_sends_more_bytes_in_ten_seconds_than_its_limit(machine, serve_logged):
    site = serve_logged(pages=60)

    crawl = machine.crawl(site.url, "--delay", 0, "--connections-per-host", 4, "--bytes-per-second", 60_000)

    assert crawl.counts["indexed"] == 60
    assert_kept([site], MostBytes(per_second=60_000, hosts=site.hosts))
    assert sum(fetch.size for fetch in site.fetches()) > 10 * 60_000


def test_a_worker_fetches_at_most_its_setting_of_documents_at_once(machine, serve_logged):
    site = serve_logged(pages=120, hosts=6, latency_ms=100)

    crawl = machine.start_crawl(
        site.url,
        *("--scope", "any", "--delay", 0, "--workers", 1),
        CRAWLCTL_OPEN_DOCUMENTS_PER_WORKER="5",
    )

    assert ended(crawl).counts["indexed"] == 120
    open_at_once = most_open_at_once(site.fetches())
    assert open_at_once == 5


def most_open_at_once(made):
    """Return the largest number of requests that were open to all hosts together."""
    changes = sorted([(fetch.start, 1) for fetch in made] + [(fetch.end, -1) for fetch in made])
    open_now = most = 0
    for _, change in changes:
        open_now += change
        most = max(most, open_now)
    return most
