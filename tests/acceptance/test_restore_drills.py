"""Proves that a drill restores the newest backup during a crawl, and changes neither the crawl nor the store."""

import json

from crawlctl.drill.models import RESTORE
from tests.acceptance.test_database_restarts import start_everything, start_job
from tests.support.installations import copy_migrated
from tests.support.processes import QUICK_HEARTBEATS, Database, Machine, held_by, wait_for


def files_of(place):
    return {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}


def test_a_drill_during_a_crawl_measures_a_restore_and_changes_nothing(serve, tmp_path):
    machine = Machine(Database("dbname=none"), tmp_path)
    place = tmp_path / "place"
    own = {
        **QUICK_HEARTBEATS,
        "DATABASE_URL": "",
        "CRAWLCTL_VAR": str(tmp_path / "var"),
        "CRAWLCTL_BACKUP_STORE": str(place),
        "CRAWLCTL_BACKUP_SHIP_EVERY": "1",
        "CRAWLCTL_BACKUP_PASSPHRASE": "correct horse",
    }
    copy_migrated(tmp_path / "var")
    site = serve(pages=400, hosts=2, traps=1, latency_ms=40)
    output = tmp_path / "pages.jsonl"
    try:
        _, browser = start_everything(machine, **own)
        job_id = start_job(browser, site, output=output)
        wait_for(lambda: site.count_requests() >= 40, saying="the crawl is in progress")
        task = browser.post("tasks/", kind="backup", arguments={"keep": 3})
        wait_for(lambda: list((place / "base").glob("*/backup.json")), saying="the task has made a backup")
        wait_for(lambda: browser.get(f"archived-tasks/{task['id']}/")[0] == 200, saying="the task has ended")
        before = files_of(place)

        drill = machine.start("drill", "restore", "--json", **own)
        assert drill.wait() == 0, drill.out + drill.err
        report = json.loads(drill.out.splitlines()[-1])
        assert report["missing"] == []
        assert report["is_sealed"]
        assert 0 <= report["lost"] < 60
        assert report["recovery"] > 0
        assert report["documents"] > 1
        assert 0 <= report["read_again"] <= 402
        # Only the live server continues its log.
        added = files_of(place) - before
        assert {path.split("/")[0] for path in added} <= {"wal"}
        assert {path.split("/")[2][:8] for path in added} <= {"00000001"}
        assert not list((tmp_path / "var" / "drills").iterdir())

        rows = browser.get("drills/")[1]["results"]
        assert [(row["fault"], row["is_good"]) for row in rows] == [(RESTORE, True)]
        assert "documents would be read again" in browser.ask("/cluster/drills/")[1]
        wait_for(lambda: browser.get(f"jobs/{job_id}/")[1].get("phase") == "inactive", saying="the job has ended")
        assert held_by(output) == site.documents

        late = machine.start("drill", "restore", "--to", "2001-01-01T00:00Z", **own)
        assert late.wait() == 1
        assert "reaches 2001-01-01 00:00:00 UTC" in late.err
        assert "The last drill of a restore failed" in str(browser.get("attention/")[1])
    finally:
        machine.clean_up()
