"""Proves that a worker checks the free space of the disks it writes to."""

from jobs.loops.disk import FreeDisk

# Limit of free space above that of any disk (MiB).
ABOVE_ALL = 100_000_000


def test_a_disk_with_enough_free_space_is_not_reported(tmp_path):
    disk = FreeDisk()
    disk.writes_to([tmp_path / "pages.jsonl"])

    assert disk.shortage(limit=1) == ""


def test_a_shortage_names_the_disk_its_free_space_and_the_limit():
    shortage = FreeDisk().shortage(limit=ABOVE_ALL)

    assert shortage.startswith("the disk of the ")
    assert "MiB left, and the limit (CRAWLCTL_FREE_DISK) is 100,000,000 MiB" in shortage


def test_a_minimum_of_zero_free_space_checks_no_disk():
    assert FreeDisk().shortage(limit=0) == ""


def test_the_disk_of_a_missing_output_file_is_that_of_its_directory(tmp_path, settings):
    settings.VAR_DIR = tmp_path / "not" / "made"
    disk = FreeDisk()
    disk.writes_to([tmp_path / "neither" / "pages.jsonl"])

    assert "MiB left" in disk.shortage(limit=ABOVE_ALL)
