"""
Proves that parts of documents are separate entries in each output, and are removed and restored with their document.
"""

import pytest

from crawlctl.access.roles import VIEWER
from jobs.connectors.output.registry import open_output
from jobs.connectors.repository.base import hash_of
from jobs.connectors.schema import NOTHING
from jobs.connectors.transformation import registry
from jobs.connectors.transformation.base import Item, Stage, TransformationKind
from jobs.loops.restoring import perform_restoration
from jobs.models import IndexedDocument, OutputFault, QueueItem, SearchDocument
from jobs.queue.removing.clear_output import clear_some
from jobs.verbs import connections, restoring
from jobs.verification import verbs
from tests.integration.test_pipelines import Staged, assert_is_sound, stage
from tests.support.api import client_of, make_user
from tests.support.processes import held_by
from tests.support.scripted import url_of


class Lines(Stage):
    """A stage that makes a part from each line `name: text` of a document, and keeps the other lines."""

    description = "lines"

    def transform(self, item):
        if item.component:
            return (item,)
        named = [line.split(": ") for line in item.text.splitlines() if ": " in line]
        text = "\n".join(line for line in item.text.splitlines() if ": " not in line)
        parts = [Item(url=item.url, content_type="text/plain", text=text, component=name) for name, text in named]
        return (Item(url=item.url, content_type=item.content_type, text=text), *parts)


@pytest.fixture(autouse=True)
def kinds(monkeypatch):
    made = TransformationKind(name="lines", label="lines", settings=NOTHING, open=lambda _values: Lines())
    usual = registry._load(())
    monkeypatch.setattr(registry, "_load", lambda _named: {**usual, "lines": made})


@pytest.fixture
def file(tmp_path):
    return tmp_path / "out.jsonl"


@pytest.fixture
def site(connection, world, file):
    """Return a site whose page1 has the parts a and b, in a search output and in a file."""
    site = Staged(connection, world, file)
    site.change(stage("parts", "lines", {}))
    put(site, "letter", "a: apples", "b: pears")
    site.run()
    return site


def put(site, *lines, **facts):
    site.world.put("page1", text="\n".join(lines), **facts)


def texts(site):
    """Return the texts of page1 and of its parts in the search output."""
    rows = SearchDocument.objects.filter(output=site.search, url__startswith=url_of("page1"))
    return {url.removeprefix(url_of("page1")): text for url, text in rows.values_list("url", "text")}


def held_in_file(site):
    return {url.removeprefix(url_of("page1")) for url in held_by(site.file) if url.startswith(url_of("page1"))}


def lines_of(site):
    return [
        line["url"].removeprefix(url_of("page1")) for line in site.written if line["url"].startswith(url_of("page1"))
    ]


def bring_back(site):
    return perform_restoration(restoring.restore(site.job_id, made_by="operator", now=site.cluster.clock.at))


# --- Versions --------------------------------------------------------------------------------------


def test_each_part_is_an_entry_below_the_address_of_its_document(site):
    assert texts(site) == {"": "letter", "#a": "apples", "#b": "pears"}
    assert held_in_file(site) == {"", "#a", "#b"}
    records = IndexedDocument.objects.filter(output=site.search, parent__isnull=False)
    page = hash_of(url_of("page1"))
    assert {(row.hash.hex, row.parent.hex, row.part) for row in records} == {
        (hash_of(f"{url_of('page1')}#{name}"), page, name) for name in "ab"
    }
    assert_is_sound(site)


def test_parts_do_not_count_as_documents_of_the_job(site):
    assert QueueItem.objects.count() == len(site.everything)


def test_only_a_changed_part_is_written_again(site):
    put(site, "letter", "a: apples", "b: plums")
    site.run()
    assert texts(site) == {"": "letter", "#a": "apples", "#b": "plums"}
    # The first run wrote all three.
    assert sorted(lines_of(site)) == ["", "#a", "#b", "#b"]
    site.run()
    assert len(lines_of(site)) == 4


def test_a_changed_document_leaves_its_parts_as_they_are(site):
    put(site, "another letter", "a: apples", "b: pears")
    site.run()
    assert texts(site) == {"": "another letter", "#a": "apples", "#b": "pears"}
    assert sorted(lines_of(site)) == ["", "", "#a", "#b"]


def test_a_part_missing_in_a_new_version_is_removed_from_each_output(site):
    put(site, "letter", "a: apples")
    site.run()
    assert texts(site) == {"": "letter", "#a": "apples"}
    assert held_in_file(site) == {"", "#a"}
    assert not IndexedDocument.objects.filter(part="b").exists()


def test_the_last_parts_of_a_document_are_removed_from_each_output(site):
    put(site, "another letter")
    site.run()
    assert texts(site) == {"": "another letter"}
    assert held_in_file(site) == {""}
    put(site, "another letter", "c: figs")
    site.run()
    assert held_in_file(site) == {"", "#c"}


def test_a_job_that_loses_its_stages_forgets_their_parts(site):
    site.change()
    site.run()
    assert texts(site) == {"": "letter\na: apples\nb: pears"}
    assert held_in_file(site) == {""}


# --- Removals --------------------------------------------------------------------------------------


def test_parts_are_removed_and_restored_with_their_document(site):
    site.put_root(links=[name for name in site.pages if name != "page1"])
    site.run()
    assert (texts(site), held_in_file(site)) == ({}, set())
    assert not IndexedDocument.objects.filter(parent__isnull=False).exists()
    done = bring_back(site)
    assert (done.restored, done.unread, done.refused) == (1, 0, "")
    assert texts(site) == {"": "letter", "#a": "apples", "#b": "pears"}
    assert held_in_file(site) == {"", "#a", "#b"}
    assert IndexedDocument.objects.filter(parent=hash_of(url_of("page1"))).count() == 4
    assert_is_sound(site)


def test_a_removed_part_can_be_restored_while_its_document_is_indexed(site):
    put(site, "letter", "a: apples")
    site.run()
    bring_back(site)
    assert texts(site) == {"": "letter", "#a": "apples", "#b": "pears"}
    assert held_in_file(site) == {"", "#a", "#b"}
    assert_is_sound(site)


def test_a_removed_part_is_not_restored_without_its_document(site):
    put(site, "letter", "a: apples")
    site.run()
    run_no = site.job.run_no
    site.put_root(links=[name for name in site.pages if name != "page1"])
    site.run()
    perform_restoration(restoring.restore(site.job_id, run_no=run_no, made_by="operator", now=site.cluster.clock.at))
    assert (texts(site), held_in_file(site)) == ({}, set())
    assert QueueItem.objects.count() == len(site.everything) - 1


def test_parts_stay_while_another_job_keeps_their_document(site, world):
    other = world.make_job("other", seeds=["page1"], outputs=[site.search])
    mine, site.job_id = site.job_id, other.pk
    site.change(stage("parts", "lines", {}))
    site.run()
    site.job_id = mine
    site.put_root(links=[name for name in site.pages if name != "page1"])
    site.run()
    assert texts(site) == {"": "letter", "#a": "apples", "#b": "pears"}
    assert held_in_file(site) == set()


def test_a_cleared_output_has_no_parts(site, connection):
    connections.clear(site.search.pk, made_by="operator", now=site.cluster.clock.at)
    while clear_some(connection, opens=open_output, apart_from=frozenset()).output:
        pass
    assert texts(site) == {}
    assert not IndexedDocument.objects.filter(output=site.search).exists()
    assert held_in_file(site) == {"", "#a", "#b"}


def test_a_lost_part_is_found_and_its_document_read_again(site, settings, tmp_path):
    settings.VAR_DIR = tmp_path / "var"
    SearchDocument.objects.filter(url=f"{url_of('page1')}#a").delete()
    done = verbs.verify_output(site.search, repairs=True, made_by="a test")
    fault = OutputFault.objects.get(verification=done)
    assert (fault.kind, fault.identifier, fault.result) == ("missing", f"{url_of('page1')}#a", "read again")
    requests_before = site.world.asked("page1")
    site.run()
    assert site.world.asked("page1") == requests_before + 1
    assert texts(site) == {"": "letter", "#a": "apples", "#b": "pears"}
    assert_is_sound(site)


def test_a_part_without_a_record_is_reported_as_a_ghost(site, settings, tmp_path):
    settings.VAR_DIR = tmp_path / "var"
    IndexedDocument.objects.filter(output=site.search, part="a").delete()
    done = verbs.verify_output(site.search, repairs=True, allows_removals=True, made_by="a test")
    fault = OutputFault.objects.get(verification=done)
    assert (fault.kind, fault.result) == ("ghost", "removed")
    assert texts(site) == {"": "letter", "#b": "pears"}


# --- Doors -----------------------------------------------------------------------------------------


def test_the_page_of_a_document_shows_its_parts_and_their_outputs(site, client):
    client.force_login(make_user(VIEWER))
    page = hash_of(url_of("page1"))
    shown = client.get(f"/documents/{site.job_id}/{page}/").content.decode()
    table = shown.partition('<h2 id="parts">')[2].partition("</table>")[0]
    assert [table.count(f'<td class="address">{name}</td>') for name in "ab"] == [1, 1]
    assert table.count("search") == 2
    root = client.get(f"/documents/{site.job_id}/{hash_of(url_of('root'))}/").content.decode()
    assert '<h2 id="parts">' not in root


def test_the_api_returns_the_parts_of_one_document(site):
    path = f"/api/v1/documents/{site.job_id}-{hash_of(url_of('page1'))}/"
    found = client_of(VIEWER).get(path).json()
    names = sorted([site.search.name, site.lines.name])
    assert [(part["part"], part["url"], sorted(part["outputs"])) for part in found["parts"]] == [
        (name, f"{url_of('page1')}#{name}", names) for name in "ab"
    ]
