"""Proves that each reader of backups names damaged files, whatever content a store returns for them."""

import datetime as dt
import io
import json
from contextlib import suppress

import pytest
from django.core.management import CommandError, call_command
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from crawlctl.backups import catalogue, restorable_moments, verbs, wal
from crawlctl.backups.descriptions import LARGEST_DESCRIPTION, Backup, File
from crawlctl.backups.errors import BackupError, Damaged
from jobs.queries.backups import LogState
from jobs.settings.backups import BACKUP_PASSPHRASE
from nodes.stores.opening import open_store

NAME = "20300517T120000Z-00000a"
NOON = dt.datetime(2030, 5, 17, 12, tzinfo=dt.UTC)
GOOD = {
    "format": 1, "name": NAME, "version": "1", "server_version": "15.6", "system": "7", "timeline": 1,
    "incarnation": "7/1", "started": NOON.isoformat(), "ended": NOON.isoformat(), "bytes": 6,
    "data": {"key": f"base/{NAME}/data.tar.zst", "size": 6, "sha256": "0" * 64}, "sealed": None,
    "start_lsn": "0/3000028", "end_lsn": "0/3000128", "segment_bytes": wal.SEGMENT_BYTES,
}  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "base" / NAME).mkdir(parents=True)
    return tmp_path


def put(root, content):
    (root / "base" / NAME / "backup.json").write_bytes(content)
    return open_store(f"dir:{root}")


def use(store):
    """Use the description of a backup with all readers, as the commands do."""
    for name in catalogue.names(store):
        catalogue.why_incomplete(store, catalogue.read(store, name))
    for way in verbs.ways(store):
        restorable_moments.spoken(way)
    verbs.choose(store)
    list(catalogue.prune(store, keep=1, now=NOON))
    wal.prune(store, catalogue.readable(store))


def test_a_valid_description_of_a_backup_is_read(root):
    backup = catalogue.read(put(root, json.dumps(GOOD).encode()), NAME)

    assert isinstance(backup, Backup)
    assert isinstance(backup.data, File)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"null", b"\xff\xfe", b"[" * 50_000, b" " * (LARGEST_DESCRIPTION + 1),
        json.dumps({**GOOD, "data": {**GOOD["data"], "key": "secrets/of/others"}}).encode(),
        json.dumps({**GOOD, "ended": "2030-05-17T12:00:00"}).encode(),
        json.dumps({**GOOD, "segment_bytes": 0}).encode(),
        json.dumps({**GOOD, "system": "../other"}).encode(),
    ],
)  # fmt: skip
def test_a_changed_description_of_a_backup_counts_as_damaged(root, content):
    store = put(root, content)

    with pytest.raises(Damaged):
        catalogue.read(store, NAME)
    assert catalogue.readable(store) == []


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(field=st.sampled_from(sorted(GOOD)), value=ANYTHING)
@example(field="end_lsn", value="x/y")
@example(field="system", value="")
def test_no_value_in_a_description_causes_an_unexpected_error(root, field, value):
    store = put(root, json.dumps({**GOOD, field: value}).encode())

    with suppress(BackupError):
        use(store)


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(
    key=st.sampled_from([
        "wal/7/00000002.history", "restores/7/2", "restores/7/two",
        "wal/7/000000010000000000000003~99999999T999999.9Z.zst", "wal/7/0000000200000000FFFFFFFF.zst",
    ]),
    content=st.binary(max_size=60) | st.from_regex(r"[0-9]{1,3}\t[0-9A-F]{1,3}/[0-9A-F]{1,9}\treason", fullmatch=True).map(str.encode)
    | ANYTHING.map(lambda value: json.dumps({"at": value}).encode()),
)  # fmt: skip
def test_no_content_of_the_log_causes_an_unexpected_error(root, key, content):
    store = put(root, json.dumps(GOOD).encode())
    path = root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)

    with suppress(BackupError):
        use(store)


# --- Backups without a seal -------------------------------------------------------------------------------------------


def restore_unsealed(root, environment, settings, *options):
    """Restore a backup of another PostgreSQL without a seal; return the output and the refusal."""
    settings.CRAWLCTL_ENVIRONMENT = environment
    settings.VAR_DIR = root / "var"
    put(root, json.dumps(GOOD).encode())
    (root / "base" / NAME / "data.tar.zst").write_bytes(b"abcdef")
    output = io.StringIO()
    with pytest.raises(CommandError) as refused:
        call_command("backup", "restore", "--from", str(root), *options, stdout=output)
    return output.getvalue(), str(refused.value)


UNPROVEN = f"The backup {NAME} is not sealed as a whole, so nothing proves its origin"


def test_a_restore_warns_that_an_unsealed_backup_has_no_proof_of_its_origin(root, settings):
    output, refusal = restore_unsealed(root, {}, settings)

    assert output == f"{UNPROVEN}.\n"
    assert "is of PostgreSQL 15.6" in refusal


def test_with_a_passphrase_a_restore_of_an_unsealed_backup_needs_an_option(root, settings):
    environment = {BACKUP_PASSPHRASE.path: "correct horse"}

    _, refusal = restore_unsealed(root, environment, settings)
    output, allowed = restore_unsealed(root, environment, settings, "--unsealed")

    assert refusal.startswith(f"{UNPROVEN}, and CRAWLCTL_BACKUP_PASSPHRASE is set.")
    assert "add --unsealed" in refusal
    assert output == f"{UNPROVEN}.\n"
    assert "is of PostgreSQL 15.6" in allowed


def test_the_list_marks_backups_without_a_proof_of_their_origin(root):
    put(root, json.dumps(GOOD).encode())
    output = io.StringIO()

    call_command("backup", "list", "--from", str(root), stdout=output)

    assert "not sealed: origin not proven, without the secret key" in output.getvalue()


@pytest.mark.parametrize("reached", ["yesterday", "2030-05-17T12:00:00", "2030-05-17T12:00:00+00:00"])
def test_moments_in_the_state_of_the_copied_log_have_a_time_zone(tmp_path, reached):
    path = tmp_path / "state.json"
    state = {"store": "", "system": "", "segment": "", "reached": reached, "gap_at": "", "problem": ""}
    path.write_text(json.dumps(state))

    assert (LogState.read(path) is not None) == reached.endswith("+00:00")
