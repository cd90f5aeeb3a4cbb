"""Proves that a connector can add, retain and remove single parts of a document."""

import pytest

from jobs.connectors.repository.access import Access, Level
from jobs.connectors.repository.base import Part, Parts
from jobs.models import IndexedDocument, QueueItem, SearchDocument
from jobs.queue.flushing import parts
from tests.integration.test_parts_of_documents import held_in_file, lines_of, texts
from tests.integration.test_pipelines import SITE, Staged, assert_is_sound, stage
from tests.support.scripted import url_of

# Stages of a job. Without stages, outputs get documents as the connector reads them.
STAGES = {"plain": (), "staged": (stage("site", *SITE),)}


@pytest.fixture(params=STAGES)
def site(request, connection, world, tmp_path):
    """Return a site whose page1 has the parts a and b, in a search output and in a file."""
    site = Staged(connection, world, tmp_path / "out.jsonl")
    site.change(*STAGES[request.param])
    put(site, 1, parts={"a": "apples", "b": "pears"})
    site.run()
    return site


def put(site, version, **facts):
    site.world.put("page1", **{"text": "letter", "version": f"version {version}", **facts})


def result_code():
    return QueueItem.objects.get(identifier=url_of("page1")).result_code


def test_parts_are_added_retained_and_removed_over_three_runs(site):
    assert texts(site) == {"": "letter", "#a": "apples", "#b": "pears"}

    put(site, 2, parts={"c": "figs"}, retains=["a"])
    site.run()
    assert texts(site) == {"": "letter", "#a": "apples", "#c": "figs"}
    assert held_in_file(site) == {"", "#a", "#c"}

    put(site, 3, parts={"d": "plums"}, retains_others=True, removes=["a"])
    site.run()
    assert texts(site) == {"": "letter", "#c": "figs", "#d": "plums"}
    assert held_in_file(site) == {"", "#c", "#d"}

    # Each part was written once, and each of the two removed parts has a line of its removal.
    written = [line for line in lines_of(site) if line]
    assert sorted(written) == ["#a", "#a", "#b", "#b", "#c", "#d"]
    assert_is_sound(site)


def test_a_part_given_again_is_written_only_if_it_changed(site):
    put(site, 2, parts={"a": "apples", "b": "plums"})
    site.run()
    assert texts(site) == {"": "letter", "#a": "apples", "#b": "plums"}
    assert sorted(line for line in lines_of(site) if line) == ["#a", "#b", "#b"]


def test_a_connector_cannot_retain_parts_that_an_output_may_lack(site):
    IndexedDocument.objects.filter(output=site.search, part="a").delete()
    SearchDocument.objects.filter(url=f"{url_of('page1')}#a").delete()
    IndexedDocument.objects.filter(output=site.search, part="").update(version="", read_version="")
    put(site, 2, retains=["a", "b"])
    site.run()
    assert result_code() == "PROTOCOL"
    assert held_in_file(site) == {"", "#a", "#b"}

    put(site, 2, parts={"a": "apples", "b": "pears"})
    site.run()
    assert texts(site) == {"": "letter", "#a": "apples", "#b": "pears"}


def test_parts_are_not_retained_with_an_old_access(site):
    put(site, 2, retains=["a", "b"], access=Access(Level(allow=("staff",))))
    site.run()
    assert result_code() == "PROTOCOL"


def test_a_stage_that_refuses_a_part_leaves_it_out_of_its_output(site):
    site.change(stage("few", "allowed", {"exclude": ["#b$"]}))
    put(site, 2, parts={"a": "apples", "b": "pears"})
    site.run()
    assert texts(site) == {"": "letter", "#a": "apples"}
    put(site, 3, retains=["a", "b"])
    site.run()
    assert texts(site) == {"": "letter", "#a": "apples"}


def test_a_document_gets_no_more_parts_than_its_limit(site, monkeypatch):
    monkeypatch.setattr(parts, "MOST_PARTS", 3)
    put(site, 2, parts={"c": "figs", "d": "plums"}, retains_others=True)
    site.run()
    assert texts(site) == {"": "letter", "#a": "apples", "#b": "pears", "#c": "figs"}


def test_parts_of_a_part_stay_and_leave_with_their_part():
    named = Parts([Part("a"), Part("b", content=object())], removed=frozenset({"a!/x"}))
    paths = ["a", "a!/y", "a!/y!/z", "a!/x", "a!/x!/z", "b!/x", "c"]
    assert [path for path in paths if named.keep(path)] == ["a", "a!/y", "a!/y!/z"]
