"""Proves that daemons apply stored settings while they run, respect their command line, and refuse invalid values."""

from jobs.settings.table import TABLE
from nodes.settings import versions
from tests.support.processes import QUICK_HEARTBEATS, wait_for


def store(document):
    versions.store(TABLE, document, made_by="a test")


def wait_for_version(cluster, daemon, version):
    """Wait until the node has applied this version of the settings, and return its report."""
    return wait_for(
        # A node works for a moment before it has reported its settings.
        lambda: (report := cluster.node_of(daemon).settings).get("version") == version and report,
        saying=f"{daemon.name} runs with version {version}",
    )


def test_nodes_apply_stored_settings_immediately_or_at_their_restart(cluster):
    quick = {"CRAWLCTL_NODE_TIMEOUT": "", "CRAWLCTL_HEARTBEAT_INTERVAL": "", "CRAWLCTL_CLAIMED_PER_WORKER": "50"}
    manager, worker = cluster.start("runmanager", "runworker", **quick)

    store({"cluster": {"heartbeat_interval": 0.5, "node_timeout": 60}, "worker": {"claimed": 7}})
    of_manager, of_worker = (wait_for_version(cluster, daemon, 1) for daemon in (manager, worker))

    assert of_manager["values"]["cluster.heartbeat_interval"] == 0.5
    assert of_manager["sources"]["cluster.heartbeat_interval"] == "stored"
    assert of_manager["waiting"] == {"cluster.node_timeout": 60}
    assert (of_worker["values"]["worker.claimed"], of_worker["sources"]["worker.claimed"]) == (50, "environment")
    assert cluster.node_of(manager).timeout_seconds == 10

    (later,) = cluster.start("runmanager", **quick)

    assert cluster.node_of(later).timeout_seconds == 60
    assert wait_for_version(cluster, later, 1)["waiting"] == {}


def test_a_running_node_applies_a_changed_interval_of_heartbeats(cluster):
    (manager,) = cluster.start("runmanager", CRAWLCTL_HEARTBEAT_INTERVAL="", CRAWLCTL_NODE_TIMEOUT="60")
    store({"cluster": {"heartbeat_interval": 0.1}})
    wait_for_version(cluster, manager, 1)

    before = cluster.node_of(manager).heartbeat_at
    wait_for(lambda: cluster.node_of(manager).heartbeat_at > before, saying="the manager sends heartbeats")
    first = cluster.node_of(manager).heartbeat_at
    second = wait_for(
        lambda: (at := cluster.node_of(manager).heartbeat_at) > first and at,
        saying="the manager soon sends another heartbeat",
    )

    assert (second - first).total_seconds() < 1.5


def test_the_command_line_overrides_all_other_settings(machine, cluster):
    store({"worker": {"claimed": 7}})
    worker = machine.start(
        "runworker", "--set", "worker.claimed=3", **(QUICK_HEARTBEATS | {"CRAWLCTL_CLAIMED_PER_WORKER": "50"})
    )
    report = wait_for_version(cluster, worker, 1)

    assert cluster.node_of(worker).capacity == 3
    assert report["sources"]["worker.claimed"] == "command line"


def test_an_invalid_setting_is_explained_before_anything_runs(machine):
    for option, sentence in {
        "worker.claimed=none": "worker.claimed is 'none': it must be a whole number from 1 to 100000",
        "worker.claim=1": "worker.claim: Unknown setting. Known settings: worker.claimed",
        "web.secret_key=x": "web.secret_key: This setting can be set only in the environment, as CRAWLCTL_SECRET_KEY.",
        "cluster.node_timeout=1": "cluster.node_timeout: The timeout of 1 s is too short",
    }.items():
        daemon = machine.start("runmanager", "--set", option)

        assert daemon.wait() == 2
        assert sentence in daemon.err
        assert "Traceback" not in daemon.err
    assert machine.database.value("SELECT count(*) FROM nodes_node") == 0
