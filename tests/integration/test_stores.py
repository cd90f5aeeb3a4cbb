"""Proves that stores in a directory and on an S3-compatible server behave in the same way."""

import hashlib
import os
import threading

import pytest

from nodes.stores.opening import open_store
from nodes.stores.port import (
    InvalidAddress,
    KeyMissing,
    KeyTaken,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    WrongContent,
)
from tests.support.metrics import free_port
from tests.support.s3 import SECRET, create_bucket, s3_server

LARGE = 11 * 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with s3_server(tmp_path_factory.mktemp("moto")) as environment:
        yield environment


@pytest.fixture
def s3(server, monkeypatch, request):
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    # Parts of the smallest size that S3 takes, so that a small file has several.
    monkeypatch.setattr("nodes.stores.s3._PART", 5 * 1024 * 1024)
    bucket = f"bucket-{hashlib.sha256(request.node.name.encode()).hexdigest()[:20]}"
    create_bucket(bucket)
    return f"s3://{bucket}/a/prefix"


@pytest.fixture(params=["directory", "s3"])
def store(request, tmp_path):
    if request.param == "s3":
        return open_store(request.getfixturevalue("s3"))
    (tmp_path / "store").mkdir()
    return open_store(f"dir:{tmp_path / 'store'}")


@pytest.fixture
def put(store, tmp_path):
    def put(key, content, **more):
        path = tmp_path / "file"
        path.write_bytes(content)
        store.put(key, path, **{"sha256": hashlib.sha256(content).hexdigest(), **more})

    return put


def read(store, key, *span):
    return b"".join(store.get(key, *span))


def test_a_stored_file_is_returned_with_its_size_and_sha256(store, put):
    content = os.urandom(LARGE)
    put("job/large.warc", content)
    put("job/empty", b"")

    assert read(store, "job/large.warc") == content
    assert store.head("job/large.warc") == (LARGE, hashlib.sha256(content).hexdigest())
    assert read(store, "job/empty") == b""
    assert store.head("job/empty") == (0, hashlib.sha256(b"").hexdigest())


def test_a_part_of_a_file_can_be_read(store, put):
    put("key", b"0123456789")

    assert read(store, "key", 3, 4) == b"3456"
    assert read(store, "key", 8) == b"89"
    assert read(store, "key", 8, 100) == b"89"
    assert read(store, "key", 10, 5) == b""
    assert read(store, "key", 2, 0) == b""


def test_a_file_is_replaced_unless_the_key_must_be_absent(store, put):
    put("key", b"first", only_if_absent=True)

    with pytest.raises(KeyTaken, match="already has key"):
        put("key", b"second", only_if_absent=True)
    assert read(store, "key") == b"first"

    put("key", b"third")
    assert read(store, "key") == b"third"


def test_a_file_in_parts_is_not_replaced_if_the_key_must_be_absent(store, put):
    put("key", b"0" * LARGE, only_if_absent=True)

    with pytest.raises(KeyTaken):
        put("key", b"1" * LARGE, only_if_absent=True)
    assert read(store, "key") == b"0" * LARGE


def test_one_of_many_simultaneous_writers_gets_an_absent_key(store, tmp_path):
    won = []

    def write(number):
        path = tmp_path / str(number)
        path.write_text(str(number))
        try:
            store.put("key", path, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), only_if_absent=True)
        except KeyTaken:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 1
    assert read(store, "key") == str(won[0]).encode()


@pytest.mark.parametrize("size", [10, LARGE])
def test_content_with_another_sha256_is_refused_and_not_stored(store, put, size):
    with pytest.raises(WrongContent, match="Nothing was stored"):
        put("key", b"x" * size, sha256="0" * 64)
    assert store.head("key") is None
    assert list(store.list()) == []


def test_keys_are_listed_by_prefix_in_order_with_sizes(store, put):
    for key in ("b/2", "b/10", "a", "b-c/1"):
        put(key, key.encode())

    assert list(store.list()) == [("a", 1), ("b-c/1", 5), ("b/10", 4), ("b/2", 3)]
    assert [listed.key for listed in store.list("b/")] == ["b/10", "b/2"]
    assert [listed.key for listed in store.list("nothing")] == []


def test_a_deleted_key_is_absent_and_can_be_deleted_again(store, put):
    put("folder/key", b"content")
    store.delete("folder/key")
    store.delete("folder/key")

    assert store.head("folder/key") is None
    assert list(store.list()) == []
    with pytest.raises(KeyMissing, match="does not have folder/key"):
        read(store, "folder/key")


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/.b", "a b", "é"])
def test_keys_that_lead_out_of_the_store_are_refused(store, put, key):
    with pytest.raises(StoreError, match="is invalid"):
        put(key, b"content")
    with pytest.raises(StoreError, match="is invalid"):
        store.head(key)


@pytest.mark.parametrize(
    "address", ["", "/path", "dir:relative", "s3://", "s3://B", "http://host/x", "ftp://me:word@host"]
)
def test_invalid_addresses_of_stores_are_refused_without_their_credentials(address):
    with pytest.raises(InvalidAddress, match="dir:") as error:
        open_store(address)
    assert "word" not in str(error.value)


def test_a_missing_directory_is_not_created(tmp_path):
    store = open_store(f"dir:{tmp_path / 'not-mounted'}")

    with pytest.raises(StoreUnavailable, match="Create it, or mount its disk"):
        store.head("key")
    assert not (tmp_path / "not-mounted").exists()


def test_an_interrupted_write_to_a_directory_is_in_no_list(tmp_path):
    (tmp_path / ".unfinished-0123").write_text("half")

    assert list(open_store(f"dir:{tmp_path}").list()) == []


def test_a_missing_bucket_is_named(s3, tmp_path):
    store = open_store("s3://absent-bucket/prefix")
    (tmp_path / "file").write_bytes(b"")

    for request in (
        lambda: store.head("key"),
        lambda: read(store, "key"),
        lambda: list(store.list()),
        lambda: store.put("key", tmp_path / "file", sha256=hashlib.sha256().hexdigest()),
    ):
        with pytest.raises(StoreRefused, match=r"s3://absent-bucket/prefix: the bucket does not exist\. Create it"):
            request()


def test_a_server_that_does_not_answer_is_an_error_without_secrets(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    store = open_store(s3)

    with pytest.raises(StoreUnavailable, match="the server does not answer") as error:
        store.head("key")
    assert SECRET not in repr(error.value)
    assert error.value.__cause__ is None


def test_credentials_are_in_no_log(s3, caplog, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token-that-no-log-shows")
    caplog.set_level("DEBUG")

    open_store(s3).head("key")

    assert SECRET not in caplog.text
    assert "a-token-that-no-log-shows" not in caplog.text
    assert "Signature" not in caplog.text


def test_an_invalid_address_of_the_server_is_an_error(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "no address")

    with pytest.raises(StoreRefused, match="AWS_ENDPOINT_URL is not an address"):
        open_store(s3)


def test_a_store_without_credentials_names_their_variables(s3, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")

    with pytest.raises(StoreRefused, match="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        open_store(s3).head("key")


def test_a_listing_reads_only_the_folder_of_its_prefix(tmp_path, monkeypatch):
    for key in ("base/1/backup.json", "base/12/data", "wal/7/segment", "notes/2030/01/page"):
        path = tmp_path / key
        path.parent.mkdir(parents=True)
        path.touch()
    visited = []
    walk = os.walk

    def noted_walk(top):
        for folder, folders, names in walk(top):
            visited.append(os.path.relpath(folder, tmp_path))
            yield folder, folders, names

    monkeypatch.setattr(os, "walk", noted_walk)

    keys = [listed.key for listed in open_store(f"dir:{tmp_path}").list("base/1")]

    assert keys == ["base/1/backup.json", "base/12/data"]
    assert sorted(visited) == ["base", "base/1", "base/12"]
