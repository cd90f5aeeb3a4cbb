"""The page of settings shows effective values and previews changes, and only administrators store them."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from jobs.attention.sources import read_attention
from jobs.settings.table import CLAIMED, TABLE
from nodes.models import SettingsVersion
from nodes.settings import versions
from nodes.settings.effective import Effective
from tests.support.api import make_node, make_user
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

PAGE = "/settings/"
FEW = {"worker": {"claimed": 5}}


def visitor(role="administrator"):
    client = Client()
    client.force_login(make_user(role))
    return client


def post(client, document, *, verb, based_on=0, **fields):
    return client.post(PAGE, {"document": document, "based_on": based_on, verb: "", **fields})


def test_a_preview_shows_changes_with_their_times_and_stores_nothing():
    page = post(visitor(), json.dumps({"cluster": {"node_timeout": 8}}), verb="preview").content.decode()

    assert "Changes</h2>" in page
    assert "cluster.node_timeout" in page
    assert "at next start" in page
    assert not SettingsVersion.objects.exists()


def test_stored_versions_are_shown_with_authors_and_can_be_restored():
    client = visitor()

    stored = post(client, json.dumps(FEW), verb="store")
    versions.store(TABLE, {}, made_by="otto")
    page = client.get(PAGE).content.decode()

    assert (stored.status_code, stored["Location"]) == (302, PAGE)
    assert SettingsVersion.objects.get(version=1).made_by == "a administrator"
    assert "Version 2, stored by otto" in page
    assert "&quot;claimed&quot;: 5" in client.get(f"{PAGE}?version=1").content.decode()


def test_a_file_of_settings_can_be_stored():
    file = SimpleUploadedFile("settings.json", json.dumps(FEW).encode())

    post(visitor(), "", verb="store", file=file)

    assert SettingsVersion.objects.get().document == FEW


@each_row(
    ("document", "sentence"),
    [
        ('{"worker": {"claimed": 0}}', "This must be a whole number from 1 to 100000."),
        ('{"worker": {"claimed": 5}', "The body is not JSON"),
        ('{"worker": {}, "worker": {}}', "twice"),
        ('{"cluster": {"node_timeout": 3}}', "at least two heartbeat intervals"),
        ("[" * 100_000, "at most"),
    ],
)
def test_an_invalid_value_of_a_setting_is_explained_and_stays_in_the_form(document, sentence):
    page = post(visitor(), document, verb="store").content.decode()

    assert sentence in page
    assert not SettingsVersion.objects.exists()


def test_an_edit_of_an_older_version_names_the_author_of_the_newer_version():
    versions.store(TABLE, FEW, made_by="otto")

    page = post(visitor(), "{}", verb="store", based_on=0).content.decode()

    assert "otto has since stored version 1" in page


def test_only_an_administrator_is_offered_the_form_and_may_store():
    operator = visitor("operator")

    assert "<textarea" not in operator.get(PAGE).content.decode()
    assert post(operator, "{}", verb="store").status_code == 403


def test_a_node_with_other_values_is_named_with_the_reason():
    make_node("worker-7", settings=Effective(table=TABLE, environment={CLAIMED.path: 7}).report())

    page = visitor("viewer").get(PAGE).content.decode()

    assert "worker-7: <b>7</b> (environment)" in page


def test_a_stored_value_that_this_release_refuses_is_named():
    document = {"worker": {"claimed": -5, "shoe_size": 44}, "cluster": {"node_timeout": 8}}
    SettingsVersion.objects.create(version=1, document=document, made_by="vera")

    page = " ".join(visitor("viewer").get(PAGE).content.decode().split())

    assert "Some stored settings have no effect" in page
    assert "<code>worker.claimed</code> This must be " in page
    assert "<code>worker.shoe_size</code> Unknown setting" in page
    assert "<code>cluster.node_timeout</code>" not in page


def test_a_missing_version_of_the_settings_is_not_found():
    assert visitor().get(f"{PAGE}?version=9").status_code == 404
    assert visitor("viewer").get(f"{PAGE}?version=x").status_code == 404


# --- The fields --------------------------------------------------------------------------------------


def sent(client, verb="store", **fields):
    """Send the fields of settings. The names here have two underscores for each point."""
    values = {f"set-{name.replace('__', '.')}": value for name, value in fields.items()}
    return client.post(PAGE, {"based_on": SettingsVersion.objects.count(), verb: "", **values})


def test_each_setting_has_a_field_and_an_empty_field_stores_no_value():
    client = visitor()

    sent(client, worker__claimed="5", cluster__node_timeout="8")
    first = SettingsVersion.objects.latest("version").document
    sent(client, worker__claimed="", cluster__node_timeout="8")

    assert first == {"worker": {"claimed": 5}, "cluster": {"node_timeout": 8}}
    assert SettingsVersion.objects.latest("version").document == {"cluster": {"node_timeout": 8}}


def test_an_invalid_field_keeps_its_text_with_the_error_beside_it():
    page = sent(visitor(), worker__claimed="many").content.decode()

    assert 'value="many"' in page
    assert "“many” is invalid. It must be a whole number from 1 to 100000." in page
    assert not SettingsVersion.objects.exists()


def test_allowed_values_are_in_the_language_of_the_page():
    client = visitor()
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"

    page = sent(client, worker__claimed="many").content.decode()

    assert "eine ganze Zahl von 1 bis 100000" in page
    assert "„many“ ist ungültig. Zulässig: eine ganze Zahl von 1 bis 100000." in page
    assert "a whole number" not in page


def test_a_preview_keeps_the_entered_values():
    page = sent(visitor(), "preview", worker__claimed="7").content.decode()

    assert "Changes</h2>" in page
    assert 'value="7"' in page
    assert not SettingsVersion.objects.exists()


def test_viewers_see_values_without_fields():
    assert 'name="set-' not in visitor("viewer").get(PAGE).content.decode()


def test_the_attention_list_names_stored_settings_without_an_effect(caplog):
    document = {"worker": {"claimed": -5, "shoe_size": 44}, "cluster": {"node_timeout": 8}}
    SettingsVersion.objects.create(version=1, document=document, made_by="vera")

    lines = [line for line in read_attention(now=timezone.now()) if line.kind == "setting_ignored"]
    logged = [record for record in caplog.records if "stored settings version" in record.getMessage()]
    versions.store(TABLE, {"cluster": {"node_timeout": 8}}, made_by="vera")
    later = [line.kind for line in read_attention(now=timezone.now())]

    assert [(line.subject, line.link) for line in lines] == [("worker.claimed", PAGE), ("worker.shoe_size", PAGE)]
    assert "The stored setting worker.shoe_size has no effect, and its default applies:" in lines[1].sentence
    # An open overview reads the list once a second, so a read logs nothing.
    assert logged == []
    assert "setting_ignored" not in later
