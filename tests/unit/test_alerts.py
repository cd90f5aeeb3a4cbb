"""
Proves that alerts fire exactly when they should. promtool evaluates the rules over samples that a Prometheus would read
from processes.
"""

import subprocess
from pathlib import Path

import pytest
import yaml

RULES = Path(__file__).resolve().parents[2] / "docs" / "monitoring" / "alerts.yml"

pytestmark = pytest.mark.debian("prometheus")

WORKER = 'instance="w1", job="crawlctl"'
WEB = 'instance="web", job="crawlctl-web"'


def documents(**rates):
    """Return the counters of a worker, from the number of results of each kind per minute."""
    results = dict.fromkeys(("indexed", "unchanged", "failed", "excluded", "retry", "given_back", "waiting"), 0)
    return {
        f'crawlctl_documents_total{{{WORKER}, result="{result}"}}': f"0+{rate}x60"
        for result, rate in (results | rates).items()
    }


def level(name, amount, labels=""):
    return {f"{name}{{{WEB}{labels and ', '}{labels}}}": f"{amount}x60" if isinstance(amount, int) else amount}


def fires(tmp_path, alert, series, *, at="40m"):
    """True if the rule of this name fires at this moment."""
    query = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)'
    expected = {"expr": query, "eval_time": at, "exp_samples": [{"labels": "{}", "value": 0}]}
    samples = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": samples, "promql_expr_test": [expected]}
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [test]}))
    played = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    if played.returncode == 0:
        return False
    assert "got:" in played.stdout + played.stderr, played.stdout + played.stderr
    return True


def test_the_alert_rules_are_valid():
    checked = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stderr


# --- Failing sites -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "rates"),
    [
        ("answers 500 or refuses", {"retry": 20, "failed": 10}),
        ("answers 503 and is asked every four minutes", {"retry": 0.5}),
        ("hangs", {"retry": 1, "failed": 0.5}),
        ("fails beside one that answers", {"retry": 20, "failed": 10, "indexed": 15}),
    ],
)
def test_a_failing_site_is_listed(tmp_path, site, rates):
    assert fires(tmp_path, "CrawlctlMostFail", documents(**rates)), site


@pytest.mark.parametrize("rates", [{"indexed": 100, "failed": 5, "retry": 10}, {"unchanged": 50, "waiting": 90}, {}])
def test_no_alert_fires_for_a_crawl_that_mostly_succeeds(tmp_path, rates):
    assert not fires(tmp_path, "CrawlctlMostFail", documents(**rates))


# --- Standstill ----------------------------------------------------------------------------------


def waiting(amount):
    return level("crawlctl_cluster_waiting_documents", amount)


def test_retries_do_not_count_as_progress(tmp_path):
    assert fires(tmp_path, "CrawlctlStandsStill", {**waiting(500), **documents(retry=30)})


def test_a_crawl_without_workers_is_reported_as_stalled(tmp_path):
    assert fires(tmp_path, "CrawlctlStandsStill", waiting(500))


def test_a_slow_crawl_is_not_reported_as_stalled(tmp_path):
    assert not fires(tmp_path, "CrawlctlStandsStill", {**waiting(500), **documents(indexed=1)})


def test_no_alert_fires_for_a_job_paused_by_an_operator(tmp_path):
    paused = level("crawlctl_cluster_job_paused", 1, 'crawl="news", by="operator", reason=""')
    series = {**waiting(0), **level("crawlctl_cluster_documents", 500, 'state="pending"'), **paused, **documents()}

    assert not fires(tmp_path, "CrawlctlStandsStill", series)
    assert not fires(tmp_path, "CrawlctlJobPausedItself", series)


def test_a_job_that_crawlctl_paused_is_listed(tmp_path):
    paused = level("crawlctl_cluster_job_paused", 1, 'crawl="news", by="crawlctl", reason="The disk is full."')

    assert fires(tmp_path, "CrawlctlJobPausedItself", paused)


# --- Nodes, disks, backups -----------------------------------------------------------------------


def test_a_dead_node_is_reported_immediately_and_until_it_is_replaced(tmp_path):
    lost = level("crawlctl_cluster_attention_lines", "_x10 1x20 _x30", 'kind="node_lost"')

    found = [fires(tmp_path, "CrawlctlNodeLost", lost, at=at) for at in ("9m", "12m", "30m", "45m")]
    assert found == [False, True, True, False]


def test_a_node_that_is_not_marked_failed_is_reported(tmp_path):
    assert fires(tmp_path, "CrawlctlNodeSilent", level("crawlctl_cluster_longest_silence_ratio", "0+1x60"))
    assert not fires(tmp_path, "CrawlctlNodeSilent", level("crawlctl_cluster_longest_silence_ratio", "1x60"))


@pytest.mark.parametrize(
    ("alert", "metric", "labels", "well", "badly"),
    [
        ("CrawlctlBackupOld", "crawlctl_cluster_backup_age_seconds", "", "3600x60", "200000x60"),
        ("CrawlctlDiskFull", "crawlctl_disk_free_bytes", 'directory="/srv/var"', "9000000000x60", "1000000000x60"),
        ("CrawlctlNeedsAttention", "crawlctl_cluster_attention_lines", 'kind="host_fails"', "0x60", "2x60"),
    ],
)
def test_alerts_fire_for_an_old_backup_a_full_disk_and_attention_lines(tmp_path, alert, metric, labels, well, badly):
    assert not fires(tmp_path, alert, level(metric, well, labels))
    assert fires(tmp_path, alert, level(metric, badly, labels))
