"""
Proves that each save of a job, a policy or a connection makes a version, and that each version can be restored.
"""

import datetime as dt

import pytest
from django.urls import reverse

from jobs.definitions.versions import verbs
from jobs.lifecycle.job import Phase
from jobs.models import DefinitionVersion, Job, OutputConnection, RepositoryConnection, ThrottlePolicy
from jobs.verbs import connections, editing, policies
from nodes.database.sealing import unseal
from nodes.errors import ChangedMeanwhile, Invalid
from tests.support.api import NOON, client_of, make_job, make_world, set_phase
from tests.support.definitions import everything, store

pytestmark = pytest.mark.django_db

VERA = {"made_by": "vera"}


def may(_permission):
    return True


def versions_of(stored):
    kinds = {Job: "job", ThrottlePolicy: "policy", RepositoryConnection: "repository", OutputConnection: "output"}
    return list(
        DefinitionVersion.objects.filter(definition=kinds[type(stored)], object_id=stored.pk).order_by("number")
    )


def revert(version, **facts):
    return verbs.revert(version.pk, may=may, made_by="otto", **facts)


# --- Keeping ---------------------------------------------------------------------------------------


def test_each_save_of_a_job_keeps_a_version_with_its_author_and_its_changes():
    job = make_job(policy=None)

    editing.change_job(job.pk, priority=1, now=NOON + dt.timedelta(hours=1), **VERA)

    first, second = versions_of(job)
    assert (first.number, first.made_by, first.document["priority"]) == (1, "a test", 5)
    assert (second.number, second.made_by, second.at) == (2, "vera", NOON + dt.timedelta(hours=1))
    assert second.changes == {"priority": {"before": 5, "after": 1}}


def test_a_save_that_changes_nothing_keeps_no_version():
    job, policy = make_job(policy=None), policies.create(name="gently", everywhere=False, **VERA).policy
    output = OutputConnection.objects.get()

    editing.change_job(job.pk, priority=5, now=NOON, **VERA)
    policies.change(policy.pk, min_gap=1.0, everywhere=False, **VERA)
    connections.change(OutputConnection, output.pk, name=output.name, **VERA)

    assert [len(versions_of(one)) for one in (job, policy, output)] == [1, 1, 1]


def test_an_object_without_versions_keeps_its_state_before_the_first_change():
    policy = ThrottlePolicy.objects.create(name="of an earlier release")

    policies.change(policy.pk, min_gap=7.0, everywhere=False, **VERA)

    first, second = versions_of(policy)
    assert (first.made_by, first.document["min_gap"]) == ("", 1.0)
    assert second.changes == {"min_gap": {"before": 1.0, "after": 7.0}}


def test_an_import_makes_versions_and_a_dry_run_makes_none(tmp_path, settings):
    _let_use(settings, tmp_path)
    found = everything(tmp_path)

    store(found, dry_run=True)
    assert not DefinitionVersion.objects.exists()

    store(found)
    assert DefinitionVersion.objects.count() == len(found)


def test_a_version_contains_only_the_places_of_secrets(tmp_path, settings):
    _let_use(settings, tmp_path)
    store(everything(tmp_path))
    web = RepositoryConnection.objects.get(name="a web")

    (version,) = versions_of(web)
    assert "configuration.logins.0.fields.1.secret" in version.document["left_out"]
    assert "swordfish" not in str(version.document)


# --- Reverting -------------------------------------------------------------------------------------


def test_a_revert_saves_the_earlier_definition_as_a_new_version():
    job = make_job(policy=None)
    editing.change_job(job.pk, name="renamed", priority=1, specification={"include": ["docs"]}, now=NOON, **VERA)
    first, second = versions_of(job)

    revert(first, newest=second.number)

    job.refresh_from_db()
    assert (job.name, job.priority, job.specification) == ("manual", 5, {})
    third = versions_of(job)[-1]
    assert (third.number, third.made_by, third.restores) == (3, "otto", 1)
    assert third.document == first.document


def test_a_revert_to_the_present_version_changes_nothing(tmp_path, settings):
    _let_use(settings, tmp_path)
    found = everything(tmp_path)
    store(found)

    results = [revert(version).result for version in DefinitionVersion.objects.order_by("pk")]

    assert results == ["unchanged"] * len(found)
    assert DefinitionVersion.objects.count() == len(found)


def test_a_revert_keeps_the_secrets_of_a_connection(tmp_path, settings):
    _let_use(settings, tmp_path)
    store(everything(tmp_path))
    web = RepositoryConnection.objects.get(name="a web")
    (first,) = versions_of(web)
    connections.change(
        RepositoryConnection, web.pk, configuration={**web.configuration, "user_agent": "another"}, **VERA
    )

    revert(first)

    again = RepositoryConnection.objects.get(pk=web.pk).configuration
    assert again.get("user_agent") == web.configuration.get("user_agent")
    assert unseal(again["logins"][0]["fields"][1]["secret"]) == "swordfish"


def test_a_refused_revert_names_the_field_and_changes_nothing():
    policy = ThrottlePolicy.objects.create(name="gently")
    job = make_job(policy=policy)
    editing.change_job(job.pk, seeds=[_seed(job, policy=None)], now=NOON, **VERA)
    first, _second = versions_of(job)
    policies.delete(policy.pk, everywhere=False)

    with pytest.raises(Invalid) as refused:
        revert(first)

    assert refused.value.problems == {
        "seeds.0.policy": ["There is no policy 'gently'. It was deleted or renamed since this version."]
    }
    assert len(versions_of(job)) == 2


def test_a_revert_of_the_scope_of_a_running_job_is_refused():
    job = make_job(policy=None)
    editing.change_job(job.pk, specification={"include": ["docs"]}, now=NOON, **VERA)
    set_phase(job, phase=Phase.ACTIVE, run_no=1)

    with pytest.raises(Invalid) as refused:
        revert(versions_of(job)[0])

    assert list(refused.value.problems) == ["specification"]


def test_a_revert_is_refused_if_the_object_was_changed_since_it_was_read():
    job = make_job(policy=None)
    editing.change_job(job.pk, priority=1, now=NOON, **VERA)

    with pytest.raises(ChangedMeanwhile, match="Its newest version is 2"):
        revert(versions_of(job)[0], newest=1)


# --- Doors -----------------------------------------------------------------------------------------


def test_the_api_lists_versions_and_shows_the_effect_of_a_revert():
    job = make_world().job
    editing.change_job(job.pk, priority=1, now=NOON, **VERA)
    client = client_of("administrator")

    listed = client.get("/api/v1/versions/", {"definition": "job", "object": job.pk}).json()["results"]
    first = client.get(f"/api/v1/versions/{listed[-1]['id']}/").json()
    answer = client.post(f"/api/v1/versions/{listed[-1]['id']}/revert/")

    assert [one["number"] for one in listed] == [2, 1]
    assert listed[0]["changes"] == [{"field": "priority", "before": 5, "after": 1}]
    assert first["differences"] == answer.json()["fields"] == [{"field": "priority", "before": 1, "after": 5}]
    assert first["document"]["name"] == job.name


def test_the_page_of_a_version_shows_changes_in_words_and_reverts():
    job = make_world().job
    editing.change_job(job.pk, priority=1, archive="warc", now=NOON, **VERA)
    first, _second = versions_of(job)
    client = client_of("administrator")

    listed = client.get("/versions/", {"definition": "job", "object": job.pk}).content.decode()
    shown = client.get(f"/versions/{first.pk}/").content.decode()
    answer = client.post(f"/versions/{first.pk}/revert/", {"newest": "2"}, follow=True).content.decode()

    assert "<b>priority:</b> 5 → 1" in listed
    assert "Effect of a revert" in shown
    assert "has its earlier definition again" in answer
    assert "Revert to version 1." in answer


def test_the_page_shows_the_reason_for_a_refused_revert_at_the_field():
    job = make_world().job
    editing.change_job(job.pk, specification={"include": ["docs"]}, now=NOON, **VERA)
    set_phase(job, phase=Phase.ACTIVE, run_no=1)

    answer = client_of("administrator").post(f"/versions/{versions_of(job)[0].pk}/revert/")

    assert answer.status_code == 400
    assert "<code>specification</code>" in answer.content.decode()


def test_a_set_up_page_leads_to_the_versions_of_its_object():
    policy = ThrottlePolicy.objects.create(name="gently")

    answer = client_of("administrator").get(reverse("admin:jobs_throttlepolicy_versions", args=[policy.pk]))

    assert answer.url == f"/versions/?definition=policy&object={policy.pk}"


def _let_use(settings, directory):
    settings.CRAWLCTL_FILE_ROOTS = (str(directory),)
    settings.CRAWLCTL_OUTPUT_ROOT = str(directory)


def _seed(job, *, policy):
    seed = job.seeds.get()
    return editing.SeedWanted(tuple(seed.urls), policy, seed.tag, seed.pk)
