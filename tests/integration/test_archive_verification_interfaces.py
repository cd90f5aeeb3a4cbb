"""Proves that the command, the API and pages start verifications of archives, and show the faults that were found."""

import datetime as dt

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from crawlctl.access.roles import OPERATOR, VIEWER
from crawlctl.live.topics import is_topic, read_screen
from jobs.attention.sources import read_attention
from jobs.duties.cleaning import clean
from jobs.duties.retention_subjects import SUBJECTS
from jobs.models import ArchiveFault, ArchiveFile, ArchiveVerification
from jobs.verification import listing
from jobs.verification.archives import verbs
from jobs.verification.kinds import KINDS
from nodes.database.clock import read_clock
from nodes.tasks.context import TaskContext
from nodes.tasks.models import Task
from tests.integration.test_archive_verification import copies, crawl, stores, truncate
from tests.integration.test_retention import connected
from tests.support.api import NOON, assert_problem, client_of

__all__ = ["copies", "crawl", "stores"]


def test_the_command_names_and_repairs_faults_and_then_finds_none(copies, capsys):
    truncate(copies[1])
    with pytest.raises(CommandError, match="Faults that are left: 1") as ended:
        call_command("verify_archive")
    assert ended.value.returncode == 1
    assert f"truncated {ArchiveFile.objects.get().path} dir:{copies[1].parent.parent}" in capsys.readouterr().out

    call_command("verify_archive", "--repair")
    assert "written again" in capsys.readouterr().out
    call_command("verify_archive")
    assert "Compared files: 1, records: 2. Faults: none." in capsys.readouterr().out
    with pytest.raises(CommandError, match="sample: This must be a share") as refused:
        call_command("verify_archive", "--sample", "0")
    assert refused.value.returncode == 2


def test_the_command_counts_faults_that_it_does_not_list(copies, capsys, monkeypatch):
    monkeypatch.setattr(listing, "SHOWN", 1)
    copies[0].unlink()
    truncate(copies[1])

    with pytest.raises(CommandError):
        call_command("verify_archive")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "More faults: 1. Name them with --all.",
        "Compared files: 1, records: 2. Faults: copy deleted: 1, copy truncated: 1.",
    ]

    with pytest.raises(CommandError):
        call_command("verify_archive", "--all")
    assert "More faults" not in capsys.readouterr().out


def test_the_command_names_the_machines_of_archive_files(copies, capsys):
    with pytest.raises(CommandError) as refused:
        call_command("verify_archive", "--lost-machine", "a typing error")

    assert refused.value.returncode == 2
    host = ArchiveFile.objects.get().host
    assert f"a typing error has no archive files. Machines that have some: {host}." in str(refused.value)


def test_the_api_schedules_a_verification_and_shows_its_faults(copies):
    operator = client_of(OPERATOR)
    made = operator.post("/api/v1/archive-verifications/", {"repair": True}, format="json")
    assert (made.status_code, made.json()["state"]) == (201, "waiting")
    task = Task.objects.get(pk=made.json()["task"])
    assert (task.kind, task.arguments) == ("verify_archive", {"repair": True})

    copies[2].unlink()
    kind = next(kind for kind in KINDS if kind.name == "verify_archive")
    found = kind.run(TaskContext(task=task.pk, group=""), task.arguments)
    assert (found["deleted"], found["repaired"]) == (1, 1)
    shown = operator.get(f"/api/v1/archive-verifications/{made.json()['id']}/").json()
    assert (shown["state"], shown["examples"][0]["result"]) == ("done", "written again")

    invalid = operator.post("/api/v1/archive-verifications/", {"sample": 101}, format="json")
    assert_problem(invalid, 400, "invalid", fields={"sample"})


def test_the_page_shows_the_last_verification_and_starts_another(copies):
    copies[0].unlink()
    verbs.verify_archive(made_by="a test")
    page = reverse("archive-verification")
    operator = client_of(OPERATOR)

    shown = operator.get(page).content.decode()
    assert "copy deleted" in shown
    assert 'name="sample"' not in client_of(VIEWER).get(page).content.decode()
    answer = operator.post(f"{page}start/", {"sample": "x"}, format="multipart", follow=True)
    assert "This must be a number." in answer.content.decode()
    assert operator.post(f"{page}start/", {"repair": "on"}, format="multipart").status_code == 302
    assert ArchiveVerification.objects.filter(repairs=True, task__isnull=False).exists()


def test_the_open_page_of_archives_follows_running_verifications(copies):
    context = client_of(VIEWER).get(reverse("archive-verification")).context
    assert is_topic(context["topic"])
    assert read_screen(context["topic"]) == context["screen"] == {"totals": [], "last": [], "verifications": []}

    copies[0].unlink()
    verbs.verify_archive(made_by="a test")

    screen = read_screen(context["topic"])
    [last], [row] = screen["last"], screen["verifications"]
    assert "faults repaired" in last["summary"]
    assert [fault["kind"] for fault in last["faults"]] == ["copy deleted"]
    assert row["counts"] == "copy deleted: 1"


def test_retention_keeps_the_last_verification_of_archives(copies):
    copies[0].unlink()
    old, last = (verbs.verify_archive(made_by="a test") for _ in range(2))
    ArchiveVerification.objects.update(moved_at=read_clock() - dt.timedelta(days=400))

    clean(connected(), SUBJECTS["runs"], now=read_clock())

    assert not ArchiveVerification.objects.filter(pk=old.pk).exists()
    assert ArchiveFault.objects.get().verification == last


def test_the_attention_list_names_a_damaged_archive_until_its_repair(copies):
    copies[0].unlink()
    verbs.verify_archive(made_by="a test")
    (line,) = [line for line in read_attention(now=NOON) if line.kind == "archive_is_damaged"]
    assert "1 faults in archives are not repaired" in line.sentence
    verbs.verify_archive(repairs=True, made_by="a test")
    assert not [line for line in read_attention(now=NOON) if line.kind == "archive_is_damaged"]
