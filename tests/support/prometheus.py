"""A Prometheus for one test. It reads real processes, and its windows are shorter than those of the rules."""

import json
import re
import subprocess
import urllib.request
from pathlib import Path

from tests.support.lifetimes import ENDS_WITH_PYTEST
from tests.support.metrics import free_port
from tests.support.processes import wait_for

RULES = Path(__file__).resolve().parents[2] / "docs" / "monitoring" / "alerts.yml"
# Factor by which times are shorter in the test than in the rules.
_SCALE = 60
_SECONDS = {"s": 1, "m": 60, "h": 3600}

_CONFIGURATION = """
global: {{ scrape_interval: 500ms, evaluation_interval: 500ms }}
rule_files: [{rules}]
scrape_configs:
  - job_name: crawlctl
    static_configs: [{{ targets: {targets} }}]
"""


def shortened(rules):
    """Return the rules with each window and each `for` a sixtieth as long."""

    def shorter(match):
        milliseconds = int(match["number"]) * _SECONDS[match["unit"]] * 1000 // _SCALE
        return f"{match['before']}{max(500, milliseconds)}ms"

    windows = re.sub(r"(?P<before>\[)(?P<number>\d+)(?P<unit>[smh])(?=[\]:])", shorter, rules)
    return re.sub(r"(?P<before>\bfor: )(?P<number>\d+)(?P<unit>[smh])", shorter, windows)


class Prometheus:
    """A Prometheus that reads these loopback ports until the block ends."""

    def __init__(self, directory, ports):
        self._directory, self._ports, self._port = directory, ports, free_port()

    def __enter__(self):
        self._directory.mkdir()
        rules, configuration = self._directory / "rules.yml", self._directory / "prometheus.yml"
        rules.write_text(shortened(RULES.read_text()))
        targets = json.dumps([f"127.0.0.1:{port}" for port in self._ports])
        configuration.write_text(_CONFIGURATION.format(rules=rules, targets=targets))
        self._log = (self._directory / "log").open("w")
        self._process = subprocess.Popen(
            [
                *ENDS_WITH_PYTEST,
                "prometheus",
                f"--config.file={configuration}",
                f"--storage.tsdb.path={self._directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stdout=self._log,
            stderr=self._log,
        )
        return self

    def __exit__(self, *_error):
        self._process.kill()
        self._process.wait()
        self._log.close()

    def firing(self):
        """Return the names of firing alerts."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/alerts", timeout=5) as answer:
                alerts = json.load(answer)["data"]["alerts"]
        except OSError:
            assert self._process.poll() is None, (self._directory / "log").read_text()
            return set()
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def wait_for(self, alert, *, within=60):
        wait_for(lambda: alert in self.firing(), within=within, saying=f"{alert} fires")
