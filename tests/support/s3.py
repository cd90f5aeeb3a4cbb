"""The S3-compatible server of moto, as a process on loopback."""

import contextlib
import subprocess
import sys
import urllib.error
import urllib.request

from tests.support.lifetimes import ENDS_WITH_PYTEST
from tests.support.metrics import free_port
from tests.support.processes import wait_for

SECRET = "a-secret-that-no-message-shows"


@contextlib.contextmanager
def s3_server(directory):
    """Yield the environment of the server's users while the server runs."""
    endpoint = f"http://127.0.0.1:{free_port()}"
    command = [
        *ENDS_WITH_PYTEST,
        sys.executable,
        "-m",
        "moto.server",
        "-H",
        "127.0.0.1",
        "-p",
        endpoint.rpartition(":")[2],
    ]
    with (directory / "moto.log").open("wb") as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
    try:
        wait_for(lambda: _answers(endpoint) or process.poll() is not None, saying="the S3 server answers")
        assert process.poll() is None, (directory / "moto.log").read_text()
        yield {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": SECRET}
    finally:
        process.kill()
        process.wait()


def create_bucket(name):
    import boto3

    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=name)


def _answers(endpoint):
    try:
        urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=1).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
