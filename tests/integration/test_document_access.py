"""Proves that outputs have the access of each document: when it is new, after a change, and after a restoration."""

import json

import pytest

from jobs.authorities import verbs as authorities
from jobs.connectors.repository.access import Access, Level
from jobs.loops.restoring import perform_restoration
from jobs.models import OutputConnection, RepositoryConnection, SearchAccess, SearchDocument
from jobs.verbs import connections, editing, restoring
from nodes.errors import Invalid
from tests.support.cluster import NOON
from tests.support.factories import make_output
from tests.support.guarded_site import GuardedSite
from tests.support.processes import read_lines

FOLDERS = Access(
    Level(("alice", "editors"), ("bob",)), parents=(Level(("staff",)), Level(("all",))), share=Level(("net",))
)


@pytest.fixture
def site(connection, world, tmp_path):
    site = GuardedSite(connection, world, pages=2, guard_percent=None, outputs=[make_output(tmp_path / "out.jsonl")])
    world.put("page0", text="text of page0", access=FOLDERS)
    group = authorities.create_group(name="staff", made_by="root")
    connections.change(RepositoryConnection, site.job.repository_id, authority_group_id=group.pk)
    site.group, site.file = group, tmp_path / "out.jsonl"
    site.run()
    return site


def in_search(name="page0"):
    """Return the access of a document in the search index."""
    digest = SearchDocument.objects.get(url=f"scripted://here/{name}").access
    rows = SearchAccess.objects.filter(digest=digest).order_by("place")
    assert digest is None or {row.of for row in rows} == {len(rows)}
    return Access.from_levels((row.level, row.allow, row.deny) for row in rows)


def in_lines(file, name="page0"):
    """Return the access of the last line of a document."""
    lines = [line for line in read_lines(file) if line["url"] == f"scripted://here/{name}"]
    return Access.from_json(lines[-1].get("access", {}))


def writes(site, name="page0"):
    return sum(line["url"] == f"scripted://here/{name}" for line in read_lines(site.file))


def test_every_output_gets_the_access_of_a_document(site):
    assert in_search() == in_lines(site.file) == FOLDERS.scoped("staff")
    assert in_search("page1") == in_lines(site.file, "page1") == Access()
    open_line = next(line for line in read_lines(site.file) if line["url"].endswith("page1"))
    assert "access" not in open_line


def test_a_document_is_written_again_even_if_only_its_access_changed(site):
    site.run()
    assert writes(site) == 1

    site.world.put("page0", text="text of page0", access=Access(Level(("carol",))))
    site.run()

    assert (writes(site), writes(site, "page1")) == (2, 1)
    assert in_search() == in_lines(site.file) == Access(Level(("carol",))).scoped("staff")

    site.world.put("page0", text="text of page0")
    site.run()
    assert in_search() == in_lines(site.file) == Access()


def test_access_rules_of_the_job_apply_at_the_next_run(site):
    rules = [{"pattern": "page1$", "allow": ["editors"], "deny": ["interns"]}]

    editing.change_job(site.job_id, access_rules=rules, made_by="root", now=NOON)
    site.run()

    wanted = Access(Level(("editors",), ("interns",))).scoped("staff")
    assert in_search("page1") == in_lines(site.file, "page1") == wanted
    assert in_search() == FOLDERS.scoped("staff")
    site.run()
    assert writes(site, "page1") == 2


def test_a_changed_or_renamed_authority_group_indexes_all_documents_again(site):
    authorities.change_group(site.group.pk, name="people", made_by="root")
    site.run()
    assert in_search() == in_lines(site.file) == FOLDERS.scoped("people")

    connections.change(RepositoryConnection, site.job.repository_id, authority_group_id=None)
    site.run()
    assert in_search() == in_lines(site.file) == FOLDERS.scoped("")
    assert writes(site, "page1") == 3

    connections.change(RepositoryConnection, site.job.repository_id, authority_group_id=None)
    site.run()
    assert writes(site, "page1") == 3


def test_a_restored_document_has_its_access_in_every_output(site):
    site.put_root(links=["page1"])
    site.run()
    assert site.held == {"root", "page1"}

    perform_restoration(restoring.restore(site.job_id, made_by="operator", now=site.cluster.clock.at))

    assert in_search() == in_lines(site.file) == FOLDERS.scoped("staff")
    assert [line["action"] for line in read_lines(site.file) if line["url"].endswith("page0")] == [
        "add",
        "delete",
        "add",
    ]


def test_a_text_without_rows_of_its_access_is_not_restored_as_public(site):
    OutputConnection.objects.get(connector="jsonl")
    site.put_root(links=["page1"])
    site.run()
    SearchAccess.objects.all().delete()
    site.file.unlink()

    done = perform_restoration(restoring.restore(site.job_id, made_by="operator", now=site.cluster.clock.at))

    assert (done.restored, done.unread) == (0, 1)
    assert site.held == {"root", "page1"}


def test_documents_of_equal_access_share_its_rows(site):
    site.world.put("page1", text="text of page1", access=FOLDERS)
    site.run()

    digests = set(SearchDocument.objects.exclude(access=None).values_list("access", flat=True))
    assert len(digests) == 1
    assert SearchAccess.objects.count() == 4


def test_access_rules_with_tokens_need_an_authority_group(site):
    connections.change(RepositoryConnection, site.job.repository_id, authority_group_id=None)

    with pytest.raises(Invalid) as refused:
        editing.change_job(site.job_id, access_rules=[{"pattern": ".", "allow": ["a"]}], made_by="root", now=NOON)
    assert set(refused.value.problems) == {"access_rules"}
    with pytest.raises(Invalid) as refused:
        editing.change_job(site.job_id, access_rules=[{"pattern": "("}], made_by="root", now=NOON)
    assert set(refused.value.problems) == {"access_rules.0.pattern"}


def test_json_lines_have_the_documented_fields(site):
    line = next(line for line in site.file.read_text().splitlines() if "/page0" in line)

    assert json.loads(line)["access"] == {
        "document": {"allow": ["staff:alice", "staff:editors"], "deny": ["staff:DEAD_AUTHORITY", "staff:bob"]},
        "parents": [
            {"allow": ["staff:staff"], "deny": ["staff:DEAD_AUTHORITY"]},
            {"allow": ["staff:all"], "deny": ["staff:DEAD_AUTHORITY"]},
        ],
        "share": {"allow": ["staff:net"], "deny": ["staff:DEAD_AUTHORITY"]},
    }
