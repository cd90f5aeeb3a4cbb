"""
Proves that the stages of a job decide what each output gets, and that a changed stage writes only to outputs behind it.
"""

from dataclasses import replace

import pytest

from crawlctl.access.roles import ADMINISTRATOR, VIEWER
from jobs.connectors.output.registry import open_output
from jobs.connectors.schema import NOTHING
from jobs.connectors.transformation import registry
from jobs.connectors.transformation.base import Stage, TransformationKind, Unavailable
from jobs.definitions.importing import Given, import_definitions
from jobs.definitions.importing import Refused as ImportRefused
from jobs.definitions.reading import read_rows
from jobs.definitions.subjects import JOB
from jobs.lifecycle.document import Stage as Place
from jobs.loops.restoring import perform_restoration
from jobs.models import Activity, IndexedDocument, Job, JobEvent, PipelineRefusal, QueueItem, SearchDocument
from jobs.queue.removing.orphans import drop_orphans
from jobs.verbs import editing, restoring
from nodes.errors import Invalid
from nodes.permissions import may_do_everything
from tests.integration.test_against_an_oracle import UNSOUND
from tests.support.api import assert_problem, client_of, make_user
from tests.support.cluster import seconds
from tests.support.factories import make_output
from tests.support.guarded_site import GuardedSite
from tests.support.processes import held_by, read_lines
from tests.support.scripted import url_of

SITE = ["metadata", {"set": ["site = intranet"]}]


def stage(name, kind, settings, *, after="source"):
    return {"name": name, "kind": kind, "input": after, "settings": settings}


class Staged(GuardedSite):
    """A site of five pages with a search output and a JSON lines output, whose job has a pipeline."""

    def __init__(self, connection, world, file):
        self.file = file
        self.lines = make_output(file)
        super().__init__(connection, world, pages=5, guard_percent=None, outputs=[self.lines])

    def change(self, *stages, outputs=None, **facts):
        """Store these stages. `outputs` names the stage before each output that does not follow the last stage."""
        ends = {str(output.pk): name for output, name in (outputs or {}).items()}
        pipeline = {"stages": list(stages), "outputs": ends}
        return editing.change_job(
            self.job_id, pipeline=pipeline, made_by="operator", now=self.cluster.clock.at, **facts
        )

    @property
    def written(self):
        """Return the lines that the last run appended."""
        return read_lines(self.file)

    def asked(self):
        return sum(self.world.asked(name) for name in self.everything)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "out.jsonl"


@pytest.fixture
def site(connection, world, file):
    return Staged(connection, world, file)


def assert_is_sound(site):
    for about, query in UNSOUND.items():
        assert site.cluster.connection.execute(query).fetchall() == [], about


def refusals():
    rows = PipelineRefusal.objects.order_by("hash").values_list("output__name", "stage", "code")
    return sorted(rows)


# --- Results ---------------------------------------------------------------------------------------


def test_stages_change_documents_on_their_way_to_an_output(site):
    site.change(stage("label", "metadata", {"set": ["site = intranet", "title = ${title}!"]}))
    site.run()
    lines = [line for line in site.written if line["url"] == url_of("page1")]
    assert [(line["title"], line["metadata"]["site"], line["text"]) for line in lines] == [
        ("page1!", ["intranet"], "text of page1")
    ]
    assert site.held == site.everything
    assert_is_sound(site)


def test_a_stage_refuses_documents_for_one_output_and_not_for_another(site):
    site.change(stage("short", "allowed", {"exclude": ["page[12]$"]}), outputs={site.lines: "source"})
    site.run()
    assert site.held == site.everything - {"page1", "page2"}
    assert held_by(site.file) == {url_of(name) for name in site.everything}
    assert refusals() == [("search", "short", "EXCLUDED_URL")] * 2
    assert QueueItem.objects.filter(stage=Place.DONE, indexed_before=True).count() == 6
    assert_is_sound(site)


def test_a_document_that_no_output_gets_is_excluded_with_the_reason(site, client):
    site.change(stage("short", "allowed", {"exclude": ["page1$"]}))
    site.run()
    item = QueueItem.objects.get(identifier=url_of("page1"))
    assert (item.result_code, item.indexed_before) == ("EXCLUDED_URL", False)
    client.force_login(make_user(ADMINISTRATOR))
    page = client.get(f"/documents/{site.job_id}/{item.hash.hex}/").content.decode()
    assert page.count("Stage “short”: The address matches &#x27;page1$&#x27;. (EXCLUDED_URL)") == 2
    refusals = Activity.objects.filter(activity="document refusal", entity=url_of("page1"))
    assert {(row.output_id, row.result_code) for row in refusals} == {
        (site.search.pk, "EXCLUDED_URL"),
        (site.lines.pk, "EXCLUDED_URL"),
    }
    assert {row.result_description for row in refusals} == {"short: The address matches 'page1$'."}


def test_each_branch_gets_the_document_unchanged_by_the_other_branch(site):
    site.change(
        stage("all", "null", {}),
        stage("drop", "allowed", {"exclude": ["page"]}, after="all"),
        stage("label", *SITE, after="all"),
        outputs={site.search: "drop", site.lines: "label"},
    )
    site.run()
    assert site.held == {"root"}
    assert {tuple(line["metadata"]["site"]) for line in site.written} == {("intranet",)}


# --- Versions --------------------------------------------------------------------------------------


def test_a_changed_stage_writes_only_to_the_outputs_behind_it(site):
    label = stage("label", *SITE)
    site.change(label, outputs={site.search: "source"})
    site.run()
    before = dict(SearchDocument.objects.values_list("url", "written_at"))
    lines, requests_before = len(site.written), site.asked()

    site.change({**label, "settings": {"set": ["site = public"]}}, outputs={site.search: "source"})
    site.cluster.let_pass(60)
    site.run()

    # Everything was read again, and only the file was written.
    assert site.asked() - requests_before == 6
    assert len(site.written) - lines == 6
    assert dict(SearchDocument.objects.values_list("url", "written_at")) == before
    later = Activity.objects.filter(activity="document ingest").order_by("-pk")[:6]
    assert {row.output_id for row in later} == {site.lines.pk}
    assert_is_sound(site)


def test_a_run_without_changes_writes_nothing(site):
    site.change(stage("short", "allowed", {"exclude": ["page1$"]}), outputs={site.lines: "source"})
    site.run()
    lines, rows = len(site.written), list(IndexedDocument.objects.order_by("hash").values_list("version", "indexed_at"))
    site.run()
    assert len(site.written) == lines
    assert list(IndexedDocument.objects.order_by("hash").values_list("version", "indexed_at")) == rows
    unchanged = QueueItem.objects.filter(result_code="OK_UNCHANGED").count()
    # The document that one output refuses is unchanged, too.
    assert unchanged == 6


def test_a_stage_that_begins_to_refuse_documents_removes_them_from_outputs(site):
    site.run()
    assert site.held == site.everything
    site.change(stage("short", "allowed", {"exclude": ["page[12]$"]}), outputs={site.lines: "source"})
    site.run()
    assert site.held == site.everything - {"page1", "page2"}
    assert held_by(site.file) == {url_of(name) for name in site.everything}
    gone = Activity.objects.filter(activity="document deletion").values_list("entity", "output")
    assert set(gone) == {(url_of("page1"), site.search.pk), (url_of("page2"), site.search.pk)}
    assert_is_sound(site)


def test_documents_that_a_stage_refused_can_be_restored(site):
    site.run()
    texts = dict(SearchDocument.objects.values_list("url", "text"))
    site.change(stage("short", "allowed", {"exclude": ["page[12]$"]}), outputs={site.lines: "source"})
    site.run()
    done = perform_restoration(restoring.restore(site.job_id, made_by="operator", now=site.cluster.clock.at))
    assert (done.restored, done.refused) == (2, "")
    assert dict(SearchDocument.objects.values_list("url", "text")) == texts
    assert refusals() == []
    assert_is_sound(site)


def test_a_job_that_loses_its_stages_forgets_their_refusals(site):
    site.change(stage("short", "allowed", {"exclude": ["page1$"]}), outputs={site.lines: "source"})
    site.run()
    assert len(refusals()) == 1
    site.change()
    site.run()
    assert (site.held, refusals()) == (site.everything, [])
    assert_is_sound(site)


def test_a_dropped_document_leaves_no_refusals(site):
    site.change(stage("short", "allowed", {"exclude": ["page1$"]}), outputs={site.lines: "source"})
    site.run()
    site.put_root(links=site.pages[2:])
    site.run()
    assert refusals() == []
    assert held_by(site.file) == {url_of(name) for name in site.everything - {"page0", "page1"}}
    assert_is_sound(site)


def test_an_output_loses_a_document_that_its_only_job_refuses(site, world, connection):
    """The second job drops the document. The only remaining job refuses it, so the output does not keep it."""
    other = world.make_job("other", seeds=["page1"], outputs=[site.search])
    site.change(stage("short", "allowed", {"exclude": ["page1$"]}), outputs={site.lines: "source"})
    site.run()
    mine, site.job_id = site.job_id, other.pk
    site.run()
    assert "page1" in site.held
    world.remove("page1")
    site.run()
    assert "page1" not in site.held
    site.job_id = mine


def test_a_job_that_refuses_a_document_does_not_keep_it_in_the_output(site, connection):
    site.change(stage("short", "allowed", {"exclude": ["page1$"]}), outputs={site.lines: "source"})
    site.run()
    row = IndexedDocument.objects.filter(output=site.search).first()
    page1 = QueueItem.objects.get(identifier=url_of("page1")).hash
    IndexedDocument.objects.create(output=site.search, hash=page1, version="9:x", indexed_at=row.indexed_at)
    type(site.search).objects.filter(pk=site.search.pk).update(orphans_after="00000000-0000-0000-0000-000000000000")
    while drop_orphans(connection, opens=open_output, apart_from=frozenset()).output:
        pass
    assert not IndexedDocument.objects.filter(output=site.search, hash=page1).exists()


# --- Failures --------------------------------------------------------------------------------------


class Breaks(Stage):
    description = "breaks"

    def transform(self, item):
        raise ValueError("not like this")


class Away(Stage):
    description = "away"
    is_away = True

    def transform(self, item):
        if Away.is_away:
            raise Unavailable("The server is away.", retry_after=5.0)
        return (item,)


class Lacks(Stage):
    description = "lacks"

    def transform(self, item):
        return (replace(item, note="2 pages of PDF could not be read."),)


@pytest.fixture
def kinds(monkeypatch):
    """Install a stage that fails, one whose server may not answer, and one that notes missing pages."""
    made = {
        name: TransformationKind(name=name, label=name, settings=NOTHING, open=lambda _values, of=of: of())
        for name, of in {"breaks": Breaks, "away": Away, "lacks": Lacks}.items()
    }
    usual = registry._load(())
    monkeypatch.setattr(registry, "_load", lambda _named: {**usual, **made})
    return made


def test_the_history_names_missing_pages_of_a_text_on_the_page_and_in_the_api(site, kinds, client):
    site.change(stage("read", "lacks", {}), outputs={site.lines: "source"})
    site.run()

    ingests = Activity.objects.filter(activity="document ingest", entity=url_of("page1"))
    item = QueueItem.objects.get(identifier=url_of("page1"))
    client.force_login(make_user(ADMINISTRATOR))
    page = client.get(f"/documents/{site.job_id}/{item.hash.hex}/").content.decode()
    moment = ingests.earliest("started_at").started_at
    hour = {"since": (moment - seconds(1800)).isoformat(), "until": (moment + seconds(1800)).isoformat()}
    lines = client.get("/api/v1/reports/history/", {**hour, "activity": "document ingest"}).json()["results"]

    assert dict(ingests.values_list("output", "result_description")) == {
        site.search.pk: "2 pages of PDF could not be read.",
        site.lines.pk: "",
    }
    assert page.count("2 pages of PDF could not be read.") == 1
    assert {line["result_description"] for line in lines} == {"2 pages of PDF could not be read.", ""}


def test_outputs_behind_a_stage_that_fails_keep_what_they_have(site, kinds):
    site.run()
    held, lines = site.held, len(site.written)
    site.world.put("page1", text="another text")
    site.change(stage("bad", "breaks", {}))
    site.run()
    assert (site.held, len(site.written)) == (held, lines)
    item = QueueItem.objects.get(identifier=url_of("page1"))
    assert (item.result_code, item.indexed_before) == ("EXTRACTION_FAILED", True)
    reason = PipelineRefusal.objects.filter(hash=item.hash).first().reason
    assert reason == "The stage bad failed: ValueError: not like this"
    site.change()
    site.run()
    assert SearchDocument.objects.get(url=url_of("page1")).text == "another text"
    assert_is_sound(site)


def test_a_document_waits_while_the_server_of_a_stage_does_not_answer(site, kinds):
    site.change(stage("server", "away", {}))
    site.ask("start")
    for _ in range(10):
        site.cluster.work()
    assert site.held == set()
    assert Activity.objects.filter(result_code="STAGE_UNAVAILABLE", result_description="The server is away.").exists()
    Away.is_away = False
    try:
        site.halt()
    finally:
        Away.is_away = True
    assert site.held == site.everything


# --- Doors -----------------------------------------------------------------------------------------


def test_invalid_stages_are_refused_at_their_fields(site):
    stages = [
        stage("a", "allowed", {"max_bytes": "x"}),
        stage("a", "magic", {}, after="b"),
        {"name": "", "kind": "null"},
    ]
    with pytest.raises(Invalid) as refused:
        editing.change_job(
            site.job_id, pipeline={"stages": stages, "outputs": {"0": "a"}}, made_by="o", now=site.cluster.clock.at
        )
    assert sorted(refused.value.problems) == [
        "pipeline.outputs.0",
        "pipeline.stages.0.settings.max_bytes",
        "pipeline.stages.1.input",
        "pipeline.stages.1.kind",
        "pipeline.stages.1.name",
        "pipeline.stages.2.name",
    ]


def test_the_journal_names_changes_of_stages(site):
    site.change(stage("label", *SITE))
    site.change(stage("label", "metadata", {"set": ["site = public"]}))
    event = JobEvent.objects.filter(kind="changed").latest("pk")
    assert event.detail["changes"] == {
        "pipeline.label.set": {"before": ["site = intranet"], "after": ["site = public"]}
    }
    before = site.job.specification_version
    site.change(stage("label", "metadata", {"set": ["site = public"]}))
    assert site.job.specification_version == before


def test_an_output_removed_from_the_job_leaves_its_pipeline(site):
    site.change(stage("label", *SITE), outputs={site.search: "source"})
    editing.change_job(site.job_id, outputs=[site.lines], made_by="o", now=site.cluster.clock.at)
    assert site.job.pipeline["outputs"] == {}


def test_the_api_shows_and_stores_the_pipeline_of_a_job(site):
    api = client_of(ADMINISTRATOR)
    address = f"/api/v1/jobs/{site.job_id}/"
    assert api.get(address).json()["pipeline"] == {"stages": [], "outputs": {}}
    wanted = {"stages": [stage("label", *SITE)], "outputs": {str(site.search.pk): "source"}}
    answer = api.patch(address, {"pipeline": wanted}, format="json")
    assert (answer.status_code, answer.json()["pipeline"]) == (200, wanted)
    bad = {"stages": [{"name": "x", "kind": "allowed", "settings": {"max_bytes": -1}}]}
    refused = api.patch(address, {"pipeline": bad}, format="json")
    assert_problem(refused, 400, "invalid", fields=["pipeline.stages.0.settings.max_bytes"])


def test_the_page_of_a_pipeline_adds_changes_and_removes_stages(site, client):
    client.force_login(make_user(ADMINISTRATOR))
    address = f"/jobs/{site.job_id}/pipeline/"
    assert client.get(address).status_code == 200
    added = client.post(address, {"count": "0", "add_stage": "1", "add_kind": "metadata"})
    assert 'name="s0-setting_set"' in added.content.decode()
    assert site.job.pipeline == {}

    first = {"s0-kind": "metadata", "s0-was": "metadata", "s0-name": "label", "s0-setting_set": "site = intranet"}
    second = {"s1-kind": "allowed", "s1-was": "allowed", "s1-name": "short", "s1-input": "metadata"}
    ends = {f"o{site.search.pk}": "metadata", f"o{site.lines.pk}": ""}
    wanted = {"count": "2", "save": "1", **first, **second, "s1-setting_max_bytes": "9", **ends}
    assert client.post(address, wanted).status_code == 302
    assert site.job.pipeline == {
        "stages": [stage("label", *SITE), stage("short", "allowed", {"max_bytes": 9}, after="label")],
        "outputs": {str(site.search.pk): "label"},
    }
    page = client.get(f"/jobs/{site.job_id}/").content.decode()
    assert "Allowed documents" in page

    refused = client.post(address, {**wanted, "s1-setting_max_bytes": "-1", "s1-name": "label"})
    assert refused.status_code == 400
    assert "must be from 0 to" in refused.content.decode()
    assert "is taken" in refused.content.decode()

    # The form now shows the stored names of the stages, and its inputs have these names.
    stored = {**wanted, "s0-was": "label", "s1-was": "short", "s1-input": "label", f"o{site.search.pk}": "label"}
    removed = client.post(address, {**stored, "s0-remove": "on"})
    assert removed.status_code == 302
    assert [(one["name"], one["input"]) for one in site.job.pipeline["stages"]] == [("short", "source")]


def test_the_page_of_a_pipeline_sorts_stages_by_the_order_of_their_inputs(site, client):
    client.force_login(make_user(ADMINISTRATOR))
    stages = {"s0-kind": "null", "s0-was": "b", "s0-name": "b", "s0-input": "a"}
    stages |= {"s1-kind": "null", "s1-was": "a", "s1-name": "a", "s1-input": "source"}
    assert client.post(f"/jobs/{site.job_id}/pipeline/", {"count": "2", "save": "1", **stages}).status_code == 302
    assert [(one["name"], one["input"]) for one in site.job.pipeline["stages"]] == [("a", "source"), ("b", "a")]
    circle = {**stages, "s1-input": "b"}
    assert client.post(f"/jobs/{site.job_id}/pipeline/", {"count": "2", "save": "1", **circle}).status_code == 400


def test_viewers_see_a_pipeline_and_do_not_change_it(site, client):
    client.force_login(make_user(VIEWER))
    assert '<form method="post">' not in client.get(f"/jobs/{site.job_id}/pipeline/").content.decode()
    assert client.post(f"/jobs/{site.job_id}/pipeline/", {"count": "0", "save": "1"}).status_code == 403


def test_a_definition_has_the_stages_with_outputs_by_their_names(site):
    site.change(stage("label", *SITE), outputs={site.search: "source"})
    (definition,) = read_rows({JOB: [site.job]}, alone=True)
    assert definition["pipeline"] == {"stages": [stage("label", *SITE)], "outputs": {"search": "source"}}

    def import_(**changes):
        given = [Given("a file", {**definition, **changes})]
        return import_definitions(given, may=may_do_everything, made_by="olga", dry_run=False)[0]

    assert import_().result == "unchanged"
    assert import_(name="copy").result == "created"
    assert Job.objects.get(name="copy").pipeline == site.job.pipeline
    with pytest.raises(ImportRefused) as refused:
        import_(pipeline={**definition["pipeline"], "outputs": {"nothing": "label"}})
    assert [problem.field for problem in refused.value.problems] == ["pipeline.outputs.'nothing'"]


def test_a_job_waits_while_a_kind_of_its_stages_is_not_installed(site, kinds, monkeypatch):
    site.change(stage("server", "breaks", {}))
    stored = registry._load(())
    monkeypatch.setattr(
        registry, "_load", lambda _named: {name: kind for name, kind in stored.items() if name != "breaks"}
    )
    site.ask("start")
    for _ in range(5):
        site.cluster.work()
    assert (site.job.connectors_ready, site.held) == (False, set())
    assert "the kind of stages 'breaks' is not installed" in site.job.reason
    monkeypatch.setattr(registry, "_load", lambda _named: stored)
    site.halt()
    assert site.job.connectors_ready
