"""Proves that a document passes through the stages of a job to the right outputs. Needs no database."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from jobs.connectors.repository.access import Access, Level
from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import NO_PARTS, Content, Delivery, Document, Ending, Outcome
from jobs.connectors.schema import NOTHING
from jobs.connectors.transformation import registry
from jobs.connectors.transformation.base import (
    Candidate,
    Item,
    Runs,
    Stage,
    TransformationKind,
)
from jobs.connectors.transformation.pipeline import read_pipeline
from jobs.connectors.transformation.running import Pipeline
from jobs.loops.worker.pipelines import decided
from jobs.queue.flushing.hop_limits import Reach
from jobs.queue.flushing.outcomes import Result

URL = "http://a.example/a.pdf"
CONTENT = Content(URL, "title", "", "words", "text/html", "en", metadata={"author": ("Ada",)})


class Reads(Stage):
    """A stage that makes a text from a PDF, and a component (an attachment)."""

    description = "reads"

    def reads(self, candidate):
        return candidate.content_type == "application/pdf"

    def transform(self, item):
        if item.body is None:
            return (item,)
        part = Item(url=item.url, content_type="text/plain", title="letter.txt", text="of a letter", component="letter")
        return (Item(url=item.url, content_type=item.content_type, text="of a file"), part)


class Crashes(Stage):
    description = "crashes"

    def transform(self, item):
        raise AssertionError("it runs in a child")


class Pool:
    """A pool of child processes that all die."""

    async def transform(self, kind, given, item):
        raise RuntimeError("The file ended its process.")


@pytest.fixture(autouse=True)
def kinds(monkeypatch):
    made = {
        "reads": TransformationKind(name="reads", label="", settings=NOTHING, open=lambda _values: Reads()),
        "crashes": TransformationKind(
            name="crashes", label="", settings=NOTHING, open=lambda _values: Crashes(), runs_in=Runs.IN_PROCESS
        ),
    }
    usual = registry._load(())
    monkeypatch.setattr(registry, "_load", lambda _named: {**usual, **made})


def stage(name, kind, after, **settings):
    return {"name": name, "kind": kind, "input": after, "settings": settings}


def pipeline(*stages, outputs=(1,), ends=None):
    stored = {"stages": list(stages), "outputs": {str(output): name for output, name in (ends or {}).items()}}
    return Pipeline(read_pipeline(stored), outputs=outputs)


def run(made, *, item=None, parts=(), kept=NO_PARTS, content=CONTENT):
    given = item or Item(
        url=URL, content_type="text/html", text="words", title="title", language="en", metadata=content.metadata
    )
    return asyncio.run(made.run([given, *parts], content, parts=kept, pool=Pool()))


def test_a_source_reads_bytes_only_for_an_output_that_may_get_them():
    pdf, zipped = Candidate(URL, "application/pdf", 500), Candidate(URL, "application/zip", 500)
    assert pipeline(stage("r", "reads", "source")).reads(pdf)
    assert not pipeline(stage("r", "reads", "source")).reads(zipped)
    short = stage("s", "allowed", "source", max_bytes=100)
    assert not pipeline(short, stage("r", "reads", "s")).reads(pdf)
    assert pipeline(short, stage("r", "reads", "s"), stage("q", "reads", "source")).reads(pdf)
    # No output follows this stage.
    assert not pipeline(stage("r", "reads", "source"), ends={1: "source"}).reads(pdf)


def test_each_component_becomes_a_part_with_an_address_and_a_version():
    item = Item(url=URL, content_type="application/pdf", body=b"%PDF-")
    content = Content(URL, "", "", "", "application/pdf", "")
    delivery = run(pipeline(stage("r", "reads", "source")), item=item, content=content)[1]
    assert delivery.content.text == "of a file"
    assert [(part.id, part.content.url, part.content.text) for part in delivery.parts.given] == [
        ("letter", f"{URL}#letter", "of a letter")
    ]
    assert delivery.parts.given[0].version != delivery.version


def test_a_part_has_the_access_of_its_document():
    item = Item(url=URL, content_type="application/pdf", body=b"%PDF-")
    content = Content(URL, "", "", "", "application/pdf", "", access=Access(document=Level(allow=("staff",))))
    delivery = run(pipeline(stage("r", "reads", "source")), item=item, content=content)[1]
    assert delivery.parts.given[0].content.access == content.access


def test_bytes_that_no_stage_reads_are_refused_with_reason_not_text():
    item = Item(url=URL, content_type="application/zip", body=b"PK")
    delivery = run(pipeline(stage("r", "null", "source")), item=item)[1]
    assert (delivery.code, delivery.removes) == ("NOT_TEXT", True)


def test_a_child_that_dies_fails_only_the_outputs_behind_its_stage():
    made = pipeline(stage("c", "crashes", "source"), outputs=(1, 2), ends={2: "source"})
    found = run(made)
    assert (found[1].code, found[1].failed, found[1].removes) == ("EXTRACTION_FAILED", True, False)
    assert found[1].reason == "The stage c failed: The file ended its process."
    assert found[2].content == CONTENT


def test_the_version_for_an_output_depends_on_its_path_and_its_result():
    def version(*stages, output=1, **facts):
        return run(pipeline(*stages, outputs=(1, 2), ends={2: "a"}), **facts)[output].version

    first, second = stage("a", "metadata", "source", set=["x = 1"]), stage("b", "metadata", "a", set=["y = 1"])
    other = {**second, "settings": {"set": ["y = 2"]}}
    usual = version(first, second)
    assert version(first, second) == usual
    assert version(first, other) != usual
    assert version(first, second, output=2) == version(first, other, output=2)
    # A stage with other settings changes the version, even if its result is the same.
    assert version(first, {**second, "settings": {"set": ["y = 1", "z = ${none}"]}}) != usual
    text = Item(url=URL, content_type="text/html", text="other words", title="title")
    assert version(first, second, item=text) != usual


def outcome():
    document = Document("0" * 32, URL, 0, 0, "1:old", "etag", 0, 0.0)
    return Outcome(document, Ending.INDEXED, "200", version="2:new", validators="new", content=CONTENT, references=[])


def test_an_outcome_is_indexed_failed_or_excluded_by_its_deliveries():
    good, refused = Delivery(CONTENT, "v"), Delivery(stage="s", code="EXCLUDED_URL", reason="No.")
    failed = Delivery(stage="s", code="EXTRACTION_FAILED", reason="No.", failed=True)
    assert decided(outcome(), {1: good, 2: refused}).ending == Ending.INDEXED
    excluded = decided(outcome(), {1: refused})
    assert (excluded.ending, excluded.code, excluded.removes, excluded.version) == (
        Ending.EXCLUDED,
        "EXCLUDED_URL",
        True,
        "",
    )
    kept = decided(outcome(), {1: refused, 2: failed})
    assert (kept.ending, kept.code, kept.removes) == (Ending.FAILED, "EXTRACTION_FAILED", False)
    # The next request is conditional: it sends the version that the outputs have.
    assert (kept.version, kept.validators) == ("1:old", "etag")


def test_a_document_outside_of_its_hop_limits_is_delivered_nowhere():
    given = decided(outcome(), {1: Delivery(CONTENT, "v")})
    job = SimpleNamespace(id=1, hops=object())
    judged = Reach().judged(Result(SimpleNamespace(document=given.document), job, given))
    assert (judged.outcome.code, judged.outcome.deliveries) == ("HOPCOUNT", None)


def test_a_source_without_a_pipeline_reads_no_bytes():
    document = outcome().document
    activity = Activity(document, "1")
    assert not activity.reads("application/pdf")
    assert activity.fingerprint_of(CONTENT, b"bytes") == CONTENT.fingerprint
    staged = Activity(document, "1", pipeline=pipeline(stage("r", "reads", "source")))
    assert staged.reads("application/pdf")
    assert staged.fingerprint_of(CONTENT, b"bytes") != staged.fingerprint_of(CONTENT, b"other")
    staged.ingest(CONTENT, code="200", version="1:x", validators="", body=b"bytes", charset="latin-1")
    assert (staged.outcome.item.body, staged.outcome.item.charset, staged.outcome.item.metadata) == (
        b"bytes",
        "latin-1",
        CONTENT.metadata,
    )


def test_small_stages_take_little_time_for_a_document():
    made = pipeline(*(stage(f"s{number}", "allowed", "source", exclude=["x$"]) for number in range(3)), outputs=(1,))
    item = Item(url=URL, content_type="text/html", text="words " * 500)

    async def many():
        for _ in range(1_000):
            await made.run([item], CONTENT, pool=Pool())

    began = time.process_time()
    asyncio.run(many())
    # A document takes about 0.05 ms.
    assert time.process_time() - began < 2.0
