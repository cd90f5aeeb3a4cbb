"""Files from ManifoldCF are imported as definitions."""

import json

import pytest
from django.core.management import CommandError
from django.db import connections

from jobs.authorities.models import AuthorityGroup
from jobs.models import Job
from tests.support import manifoldcf
from tests.support.definitions import run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def one_connection(monkeypatch, settings, tmp_path):
    """Keep the database connection of the test open, and let crawl connections use the directory of the test."""
    monkeypatch.setattr(connections["default"], "close", lambda: None)
    settings.CRAWLCTL_FILE_ROOTS = (str(tmp_path),)
    settings.CRAWLCTL_OUTPUT_ROOT = str(tmp_path)
    AuthorityGroup.objects.create(name="staff")


def test_files_of_manifoldcf_are_imported_with_notes(tmp_path, capsys):
    excluded = {**manifoldcf.WEB_JOB["job"]["document_specification"], "excludes": "/ads/"}
    web_job = {"job": {**manifoldcf.WEB_JOB["job"], "document_specification": excluded}}
    bodies = [manifoldcf.WEB, manifoldcf.FEEDS, manifoldcf.FILES, manifoldcf.SOLR, manifoldcf.NULL]
    file = tmp_path / "manifoldcf.json"
    file.write_text(json.dumps([*bodies, web_job, manifoldcf.FEED_JOB, manifoldcf.file_job(tmp_path)]))

    planned = run("import", "--from-manifoldcf", "--dry-run", file)
    done = run("import", "--from-manifoldcf", file)

    assert planned == done.replace("unchanged.", "unchanged. Nothing was stored (--dry-run).")
    assert "10 created, 0 changed, 0 unchanged." in done
    assert f"{file}: [5].job.document_specification.urlspec: crawlctl makes" in capsys.readouterr().err
    assert {*Job.objects.values_list("name", flat=True)} == {"Intranet pages", "News", "Shares"}
    assert "0 created, 0 changed, 10 unchanged." in run("import", "--from-manifoldcf", file)


def test_a_connection_of_an_unknown_authority_group_is_refused_with_its_name(tmp_path):
    AuthorityGroup.objects.all().delete()
    file = tmp_path / "manifoldcf.json"
    file.write_text(json.dumps([manifoldcf.WEB]))

    with pytest.raises(
        CommandError, match=r"repository Intranet: authority_group: There is no authority group 'staff'"
    ):
        run("import", "--from-manifoldcf", file)


def test_converted_files_can_be_edited_and_imported(tmp_path):
    file = tmp_path / "manifoldcf.json"
    file.write_text(json.dumps([manifoldcf.FEEDS, manifoldcf.SOLR, manifoldcf.FEED_JOB]))
    converted = tmp_path / "converted.yaml"

    converted.write_text(run("convert", file))

    assert "4 created" in run("import", converted)


def test_an_expression_that_re2_refuses_is_named_with_its_job(tmp_path):
    file = tmp_path / "manifoldcf.json"
    file.write_text(json.dumps([manifoldcf.WEB, manifoldcf.SOLR, manifoldcf.WEB_JOB]))

    with pytest.raises(CommandError, match=r"job Intranet pages: specification\.\w+: pattern .*lookahead") as refused:
        run("import", "--from-manifoldcf", file)

    assert refused.value.returncode == 2
