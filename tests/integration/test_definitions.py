"""
Proves that exported definitions can be imported, that an import stores all or nothing, and that secrets are not
exported.
"""

import json

import pytest
from django.core.management import CommandError
from django.db import connections

from jobs.api.job_options import OPTION_FIELDS
from jobs.definitions.importing import Refused
from jobs.definitions.texts import as_yaml
from jobs.lifecycle.job import Phase
from jobs.lifecycle.limits import LIMITS as ALL_LIMITS
from jobs.models import Job, JobEvent, OutputConnection, RepositoryConnection, Seed, ThrottlePolicy
from nodes.database.sealing import unseal
from nodes.models import NodeEvent
from tests.support import definitions as given
from tests.support.api import set_phase
from tests.support.definitions import delete_all, everything, run, seed, store, uncovered_fields
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

JOB = {
    "definition": "job",
    "name": "docs",
    "repository": "a web",
    "outputs": ["index"],
    "seeds": [seed("http://docs.test/", policy="gently")],
}


@pytest.fixture(autouse=True)
def one_connection(monkeypatch, settings, tmp_path):
    """Keep the database connection of the test open, and let crawl connections use the directory of the test."""
    monkeypatch.setattr(connections["default"], "close", lambda: None)
    settings.CRAWLCTL_FILE_ROOTS = (str(tmp_path),)
    settings.CRAWLCTL_OUTPUT_ROOT = str(tmp_path)


@pytest.fixture
def definitions_of_all_kinds(tmp_path):
    """Store an object of each kind. Return the definitions of all these objects."""
    found = everything(tmp_path)
    store(found)
    return found


def lines():
    return JobEvent.objects.count() + NodeEvent.objects.count()


def versions():
    jobs = Job.objects.order_by("pk").values_list("specification_version", "revision", "from_the_beginning")
    return [*jobs, *ThrottlePolicy.objects.order_by("pk").values_list("version", "changed_at")]


def passwords(definition):
    login = definition["configuration"]["logins"][0]
    return {field["name"]: field.get("secret") for field in login["fields"]}


# --- Round trips -----------------------------------------------------------------------------------


def test_the_definitions_of_these_tests_use_every_field_and_option():
    assert uncovered_fields() == {}
    assert {*given.OPTIONS, "hop_limits", "archive"} >= {*OPTION_FIELDS}
    assert {*given.LIMITS} == {*ALL_LIMITS}


@each_row("ending", ["yaml", "json"])
def test_all_objects_survive_export_deletion_and_import(definitions_of_all_kinds, tmp_path, ending):
    file = tmp_path / f"all.{ending}"
    run("export", "--all", "--to", file)
    text = file.read_text()
    with_secret = tmp_path / f"with secret.{ending}"
    place = '"name": "password"' if ending == "json" else "name: password"
    secret = (
        '"name": "password", "secret": "swordfish"' if ending == "json" else "name: password\n      secret: swordfish"
    )
    with_secret.write_text(text.replace(place, secret))
    delete_all()

    run("import", with_secret)

    run("export", "--all", "--to", file)
    assert file.read_text() == text
    assert unseal(passwords_of_web()["password"]) == "swordfish"


def passwords_of_web():
    stored = RepositoryConnection.objects.get(name="a web")
    return {field["name"]: field.get("secret") for field in stored.configuration["logins"][0]["fields"]}


def test_an_import_of_unchanged_files_changes_nothing(definitions_of_all_kinds, tmp_path):
    run("export", "--all", "--to", f"{tmp_path}/files/")
    before, versions_before = lines(), versions()

    output = run("import", *sorted((tmp_path / "files").iterdir()))

    assert f"0 created, 0 changed, {len(definitions_of_all_kinds)} unchanged." in output
    assert (lines(), versions()) == (before, versions_before)


def test_exports_leave_out_secrets_and_name_their_places(definitions_of_all_kinds):
    text = run("export", "--repository", "a web")

    assert "swordfish" not in text
    assert "sealed:" not in text
    assert text.endswith("left_out:\n- configuration.logins.0.fields.1.secret\n")


def test_a_job_is_readable_and_has_no_state_and_no_ids(definitions_of_all_kinds):
    text = run("export", "--job", "tree", "--alone")

    assert text.startswith(
        "definition: job\nname: tree\nrepository: files\noutputs:\n- nothing\nseeds:\n- urls:\n  - file:"
    )
    assert not {"id", "phase", "run_no", "status"} & {line.partition(":")[0] for line in text.splitlines()}


def test_the_export_of_a_job_has_the_objects_that_it_names(definitions_of_all_kinds):
    text = run("export", "--job", "news")

    assert [line for line in text.splitlines() if line.startswith(("definition", "name"))] == [
        "definition: repository",
        "name: feeds",
        "definition: output",
        "name: index",
        "definition: job",
        "name: news",
    ]


def test_each_exported_object_is_a_separate_file(definitions_of_all_kinds, tmp_path):
    output = run("export", "--all", "--to", f"{tmp_path}/files/")

    files = {file.name for file in (tmp_path / "files").iterdir()}
    assert len(files) == len(definitions_of_all_kinds) == len(output.splitlines())
    assert {"job-tree.yaml", "policy-gently.yaml", "repository-feeds.yaml"} < files


def test_very_long_lists_of_addresses_are_exported_and_imported(definitions_of_all_kinds, tmp_path):
    urls = [f"http://docs.test/{number}" for number in range(20_000)]
    store([{**JOB, "seeds": [seed(*urls)]}])
    file = tmp_path / "long.yaml"
    run("export", "--job", "docs", "--alone", "--to", file)
    file.write_text(file.read_text().replace("http://docs.test/17777\n", "http://docs.test/another\n"))

    output = run("import", file)

    assert '  seeds.0.urls: ["http://docs.test/17777"] → ["http://docs.test/another"]\n' in output
    assert Seed.objects.get(job__name="docs").urls[17_777] == "http://docs.test/another"


# --- Plans -----------------------------------------------------------------------------------------


def test_a_dry_run_shows_the_plan_and_changes_nothing(definitions_of_all_kinds):
    before, versions_before = lines(), versions()
    wanted = [{**JOB, "priority": 1}, {**given.POLICIES[2], "open_requests": 9}]

    plan = store(wanted, dry_run=True)

    assert [(one.name, str(one.result)) for one in plan] == [("docs", "created"), ("fast", "changed")]
    assert plan[1].fields == {"open_requests": {"before": 2, "after": 9}}
    assert (lines(), versions()) == (before, versions_before)
    assert not Job.objects.filter(name="docs").exists()
    assert store(wanted) == plan


def test_an_import_is_recorded_in_the_journal_with_its_author(definitions_of_all_kinds):
    store([{**JOB}])

    store([{**JOB, "priority": 1}], made_by="otto")

    line = JobEvent.objects.latest("pk")
    assert (line.made_by, line.message) == ("otto", "was changed: priority 5 → 1")


def test_an_import_stores_objects_of_a_kind_in_the_order_of_their_names():
    """
    So if two imports create the same objects in different orders, one import waits for the other, without a deadlock.
    """
    changes = store([{"definition": "policy", "name": name, "min_gap": 1} for name in ("b", "c", "a")])

    assert [change.name for change in changes] == ["b", "c", "a"]
    assert list(ThrottlePolicy.objects.order_by("pk").values_list("name", flat=True)) == ["a", "b", "c"]


def test_problems_of_an_import_are_in_the_order_of_the_input():
    with pytest.raises(Refused) as refused:
        store([{"definition": "policy", "name": name, "min_gap": -1} for name in ("b", "a")])

    assert [problem.place for problem in refused.value.problems] == ["0", "1"]


def test_one_problem_refuses_the_whole_import(definitions_of_all_kinds, tmp_path):
    good, bad = {**JOB, "name": "good"}, {**JOB, "name": "bad", "outputs": ["nowhere"], "repository": "no web"}
    file = tmp_path / "two.yaml"
    file.write_text(as_yaml([good, bad]))
    before = lines()

    with pytest.raises(CommandError) as refused:
        run("import", file)

    assert refused.value.returncode == 2
    assert str(refused.value).splitlines() == [
        f"{file}, item 2: job bad: repository: There is no repository 'no web'. Add its definition to the import.",
        f"{file}, item 2: job bad: outputs.0: There is no output 'nowhere'. Add its definition to the import.",
        "Nothing was changed.",
    ]
    assert lines() == before
    assert not Job.objects.filter(name="good").exists()


def test_a_problem_of_a_policy_is_reported_once(definitions_of_all_kinds):
    with pytest.raises(Refused) as refused:
        store(
            [
                {"definition": "policy", "name": "new", "open_requests": 0},
                {**JOB, "seeds": [seed("http://docs.test/", policy="new")]},
            ]
        )

    first, second = refused.value.problems
    assert (first.about, first.field) == ("policy new", "open_requests")
    assert second.sentences == ["The policy 'new' of this import has problems."]


def test_a_running_job_that_cannot_change_refuses_the_import_by_name(definitions_of_all_kinds):
    store([JOB])
    set_phase(Job.objects.get(name="docs"), phase=Phase.ACTIVE, run_no=1)

    with pytest.raises(Refused) as refused:
        store([{**given.POLICIES[2], "open_requests": 9}, {**JOB, "max_documents": 5}])

    (problem,) = refused.value.problems
    assert (problem.about, problem.field) == ("job docs", "max_documents")
    assert problem.sentences == ["Job docs is “Running”. It can be changed only when it is not running."]
    assert ThrottlePolicy.objects.get(name="fast").open_requests == 2


def test_an_import_changes_the_fields_of_a_running_job_that_may_change(definitions_of_all_kinds):
    store([JOB])
    set_phase(Job.objects.get(name="docs"), phase=Phase.ACTIVE, run_no=1)

    (change,) = store([{**JOB, "priority": 2}])

    assert change.fields == {"priority": {"before": 5, "after": 2}}


def test_an_import_cannot_change_the_source_of_a_job_or_its_connector(definitions_of_all_kinds):
    store([JOB])

    with pytest.raises(Refused) as refused:
        store([{**JOB, "repository": "feeds"}, {"definition": "repository", "name": "feeds", "connector": "web"}])

    assert {(one.about, one.field) for one in refused.value.problems} == {
        ("job docs", "repository"),
        ("repository feeds", "connector"),
    }


# --- Secrets ---------------------------------------------------------------------------------------


def web_definition(**login):
    configuration = {"logins": [{**given.LOGIN, **login}]}
    return {"definition": "repository", "name": "a web", "connector": "web", "configuration": configuration}


LEFT_OUT = {"left_out": ["configuration.logins.0.fields.0.secret"]}


def test_a_secret_stays_with_its_record_when_records_move(definitions_of_all_kinds):
    fields = [{"name": "password"}, {"name": "user", "value": "otto"}]

    (change,) = store([{**web_definition(fields=fields), **LEFT_OUT}])

    assert change.result == "changed"
    assert unseal(passwords_of_web()["password"]) == "swordfish"


def test_a_secret_that_is_not_stored_is_refused_at_its_place(definitions_of_all_kinds):
    fields = [{"name": "pin"}]

    with pytest.raises(Refused) as refused:
        store([{**web_definition(fields=fields), **LEFT_OUT}])

    (problem,) = refused.value.problems
    assert problem.field == "configuration.logins.0.fields.0.secret"
    assert "Write its value at configuration.logins.0.fields.0.secret" in problem.sentences[0]


def test_a_secret_that_is_left_out_is_not_kept_for_another_destination(definitions_of_all_kinds):
    fields = [{"name": "user", "value": "vera"}, {"name": "password"}]
    left_out = {"left_out": ["configuration.logins.0.fields.1.secret"]}

    with pytest.raises(Refused) as refused:
        store([{**web_definition(fields=fields, hosts=["elsewhere.test"]), **left_out}])

    (problem,) = refused.value.problems
    assert problem.field == "configuration.logins.0.fields.1.secret"
    assert problem.sentences == ["Write the secret again: it was stored for other values of hosts."]


def test_a_new_secret_is_stored_sealed_and_shown_masked(definitions_of_all_kinds):
    fields = [{"name": "user", "value": "vera"}, {"name": "password", "secret": "another"}]

    (change,) = store([web_definition(fields=fields)])

    assert change.fields["configuration.logins.0.fields.1.secret"] == {
        "before": "(secret)",
        "after": "(another secret)",
    }
    assert unseal(passwords_of_web()["password"]) == "another"
    assert "another" not in str(list(NodeEvent.objects.values_list("detail", "message"))).replace(
        "(another secret)", ""
    )


def test_the_stored_secret_in_plain_text_changes_nothing(definitions_of_all_kinds, tmp_path):
    stored = everything(tmp_path)[3]

    (change,) = store([stored])

    assert change.result == "unchanged"


# --- Bad files -------------------------------------------------------------------------------------


@each_row(
    ("text", "says"),
    [
        ("a: &x [1]\nb: *x\n", "alias"),
        ("!!python/object/apply:os.system ['true']\n", "tag"),
        ("definition: !x job\n", "tag"),
        ("{", "not YAML"),
        ("name: a\nname: b\n", "twice"),
        ("[" * 100 + "]" * 100, "too deeply"),
        ("1: a\n", "not a text"),
        ('name: "\\0"\n', "cannot be stored"),
        ("", "A definition is an object"),
        ("- 1\n", "A definition is an object"),
        ("definition: thing\nname: a\n", "one of policy, repository, output, job"),
        ("definition: job\n", "Write the name of the object"),
        ("definition: job\nname: a\nphase: active\n", "phase: Unknown field"),
        ("definition: output\nname: a\nconnector: null\n", "connector: This field may not be null"),
        ("definition: output\nname: a\nconnector: nowhere\n", "connector: "),
        ("definition: policy\nname: a\n---\ndefinition: policy\nname: a\n", "defined twice"),
    ],
)
def test_an_invalid_definition_file_is_refused_with_the_place_of_the_error(text, says, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text(text)

    with pytest.raises(CommandError) as refused:
        run("import", file)

    assert refused.value.returncode == 2
    assert says in str(refused.value)
    assert str(refused.value).startswith(str(file))


def test_a_missing_file_and_an_unknown_name_are_refused():
    for words, says in (
        (["import", "/no/such/file"], "Cannot read /no/such/file"),
        (["export", "--job", "nowhere"], "No job has the name 'nowhere'."),
        (["export"], "Choose what to export"),
    ):
        with pytest.raises(CommandError, match=says) as refused:
            run(*words)
        assert refused.value.returncode == 2


def test_a_file_in_json_may_have_one_definition_or_a_list(definitions_of_all_kinds, tmp_path):
    one, several = tmp_path / "one.json", tmp_path / "several.json"
    one.write_text(json.dumps(JOB))
    several.write_text(json.dumps([JOB, {**JOB, "name": "second"}]))

    assert "1 created" in run("import", one)
    assert "1 created, 0 changed, 1 unchanged" in run("import", several)
    assert OutputConnection.objects.get(name="index").jobs.count() == 4
