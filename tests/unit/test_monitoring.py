"""Proves that every query of the dashboard and the alert rules parses, and names a metric of our processes."""

import json
import re
from pathlib import Path

import promql_parser
import yaml

from jobs.metrics import manual
from jobs.metrics.table import TABLE
from nodes.metrics.kinds import Counter, Histogram
from tests.support.tables import each_row

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "docs" / "monitoring"

# Labels that a scrape adds to every sample.
OF_SCRAPES = {"instance", "job"}
# Metrics besides our own figures.
OTHERS = {
    "up": set(),
    "process_cpu_seconds_total": set(),
    "process_resident_memory_bytes": set(),
    "process_open_fds": set(),
}
GROWING = {figure.name for figure in TABLE if isinstance(figure, Counter)}


def labels_by_sample():
    """Return the labels of all samples of a scrape by sample name."""
    found = {name: labels | OF_SCRAPES for name, labels in OTHERS.items()}
    for figure in TABLE:
        labels = {*figure.labels, *OF_SCRAPES}
        if isinstance(figure, Histogram):
            found |= {f"{figure.name}_{part}": labels for part in ("count", "sum")}
            found[f"{figure.name}_bucket"] = labels | {"le"}
        else:
            found[figure.name] = labels
    return found


def rules():
    groups = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def panels():
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    return {panel["title"]: panel for panel in dashboard["panels"] if panel["type"] != "row"}


def queries():
    """Return every query by its place, with a value for Grafana's variable."""
    found = {name: rule["expr"] for name, rule in rules().items()}
    for title, panel in panels().items():
        for target in panel["targets"]:
            found[f"{title}, {target['refId']}"] = target["expr"].replace("$__rate_interval", "5m")
    return found


def nodes_of(query):
    """Return the parts of a parsed query, each with its enclosing parts."""
    found, above = [], []

    def enter(part):
        found.append((part, tuple(above)))
        above.append(part)

    promql_parser.walk(promql_parser.parse(query), pre_visit=enter, post_visit=lambda _part: above.pop() and None)
    return found


def selectors_of(query):
    """Yield (name, matchers, enclosing functions) for each selector of a query."""
    for part, above in nodes_of(query):
        if isinstance(part, promql_parser.VectorSelector):
            functions = [one.func.name for one in above if isinstance(one, promql_parser.Call)]
            yield part.name, part.matchers.matchers, functions


@each_row("query", queries().values(), ids=queries())
def test_each_query_parses_and_names_metrics_and_labels_that_exist(query):
    known = labels_by_sample()
    read = list(selectors_of(query))

    assert read
    for name, matchers, _ in read:
        assert name in known
        assert {matcher.name for matcher in matchers} <= known[name]


@each_row("query", queries().values(), ids=queries())
def test_counters_are_read_as_rates(query):
    for name, _, functions in selectors_of(query):
        if name in GROWING:
            assert {"rate", "increase"} & set(functions), name


@each_row("query", queries().values(), ids=queries())
def test_each_query_groups_by_existing_labels(query):
    known = set().union(*(labels_by_sample()[name] for name, *_ in selectors_of(query)))

    named = set(re.findall(r"\w+", " ".join(re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", query))))

    assert named <= known


def test_each_label_value_of_a_query_is_counted_by_a_process():
    values = {
        (figure.name, label, value)
        for figure in TABLE
        if isinstance(figure, Counter)
        for zeros in figure.from_zero
        for label, value in zip(figure.labels, zeros, strict=True)
    }
    declared = {(name, label) for name, label, _ in values}

    for query in queries().values():
        for name, matchers, _ in selectors_of(query):
            for matcher in matchers:
                if (name, matcher.name) in declared:
                    for value in matcher.value.split("|"):
                        assert (name, matcher.name, value) in values


def test_each_rule_states_its_problem_and_its_severity():
    for name, rule in rules().items():
        assert re.fullmatch(r"(Crawlctl|DistributedJob)[A-Z]?\w+", name)
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"].endswith((".", ")", "?"))


def test_panels_do_not_overlap():
    places = [panel["gridPos"] for panel in json.loads((MONITORING / "dashboard.json").read_text())["panels"]]

    cells = [
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_every_metric_is_named_by_the_conventions_of_prometheus():
    for figure in TABLE:
        # The names of DJM's pools and threads do not follow our conventions.
        ours = figure.name.replace("activeThreads", "").replace("PersistentExpiringLockManager", "")
        assert re.fullmatch(r"[a-z][a-z0-9_]+", ours)
        assert figure.name.endswith("_total") == isinstance(figure, Counter), figure.name
        assert not isinstance(figure, Histogram) or figure.name.endswith("_seconds")
    assert len({figure.name for figure in TABLE}) == len(TABLE)


def test_the_page_of_metrics_matches_their_table():
    page = (ROOT / manual.MANUAL).read_text()

    assert page == manual.rewritten(page)
    assert manual.tables() in page
