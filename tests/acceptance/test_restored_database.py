"""Proves that after a restore, outputs that are newer than the database are verified and repaired automatically."""

import shutil

from tests.acceptance.test_database_restarts import start_everything, start_job
from tests.support.growing_site import growing_site
from tests.support.installations import copy_migrated, remove_cluster
from tests.support.processes import QUICK_HEARTBEATS, Database, Machine, held_by, wait_for


def wait_for_end_of_run(browser, job_id, number):
    def ended():
        job = browser.get(f"jobs/{job_id}/")[1]
        return job["phase"] == "inactive" and job["run_no"] == number

    wait_for(ended, saying=f"run {number} has ended")


def test_pages_found_and_lost_since_the_backup_are_removed_from_the_output(tmp_path):
    machine = Machine(Database("dbname=none"), tmp_path)
    own = {
        **QUICK_HEARTBEATS,
        "DATABASE_URL": "",
        "CRAWLCTL_VAR": str(tmp_path / "var"),
        "CRAWLCTL_BACKUP_STORE": str(tmp_path / "place"),
    }
    copy_migrated(tmp_path / "var")
    output = tmp_path / "pages.jsonl"
    stay = [f"stays{number}" for number in range(60)]
    come = [f"comes{number}" for number in range(10)]
    with growing_site(*stay) as site:
        try:
            running, browser = start_everything(machine, **own)
            job_id = start_job(browser, site, output=output)
            wait_for_end_of_run(browser, job_id, 1)
            before = site.documents
            backup = machine.start("backup", **own)
            assert backup.wait() == 0, backup.err
            site.pages |= set(come)
            browser.post(f"jobs/{job_id}/start/")
            wait_for_end_of_run(browser, job_id, 2)
            assert held_by(output) == before | {site.start_url + page for page in come}

            running.kill_with_children()
            remove_cluster(tmp_path / "var")
            # The ten pages vanish before the next run. The log of the second run is lost, too.
            site.pages -= set(come)
            name = backup.out.split()[1]
            shutil.rmtree(tmp_path / "place" / "wal")
            wait_for(lambda: restored(machine, own, name), saying="the old server has ended")
            _, browser = start_everything(machine, **own)

            lines = browser.get("attention/")[1]["results"]
            (line,) = [line for line in lines if line["key"].startswith("restore-")]
            assert "The database was restored to its state of" in line["sentence"]
            assert "(after a run of site)" in line["sentence"]
            browser.post(f"jobs/{job_id}/start/")
            wait_for_end_of_run(browser, job_id, 2)
            wait_for(lambda: held_by(output) == before, saying="the ten pages have left the output")
            assert "the database was restored" in browser.ask("/cluster/")[1]
        finally:
            machine.clean_up()


def restored(machine, own, name):
    """True if a restore succeeds. It is refused while the guardian of the crashed server still ends."""
    restore = machine.start("backup", "restore", "--backup", name, **own)
    return restore.wait() == 0 or ("processes use" in restore.err and None)
