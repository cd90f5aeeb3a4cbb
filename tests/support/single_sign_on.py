"""A provider of OpenID Connect as a process, and logins of users at it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests
from django.http import HttpResponse
from django.test import Client

from crawlctl import places
from jobs.settings.logins import CLIENT_ID, CLIENT_SECRET, ISSUER, ROLES

BEGIN = "/login/provider/"
MAPPING = ("watch=viewer", "crawl=operator", "own=administrator")
_PATIENCE = 10


@dataclass(frozen=True)
class Provider:
    """A running provider. `vera` has the group that a viewer needs until `behave` says otherwise."""

    issuer: str
    client_id: str
    secret: str

    @property
    def settings(self) -> dict[str, Any]:
        values = {ISSUER: self.issuer, CLIENT_ID: self.client_id, CLIENT_SECRET: self.secret, ROLES: MAPPING}
        return {setting.path: value for setting, value in values.items()}

    @property
    def environment(self) -> dict[str, str]:
        values = {ISSUER: self.issuer, CLIENT_ID: self.client_id, CLIENT_SECRET: self.secret, ROLES: ",".join(MAPPING)}
        return {setting.environment: value for setting, value in values.items()}

    def behave(self, **facts: Any) -> None:
        usual = {"groups": {"vera": ["watch"]}, "claims": {}, "signature": "", "absent": [], "subject_of_userinfo": ""}
        address = self.issuer.removesuffix("/o") + "/behaviour/"
        requests.put(address, json={**usual, **facts}, timeout=_PATIENCE).raise_for_status()

    def answer(self, address: str, *, user: str = "vera") -> str:
        """Return the address to which the provider sends the browser of this user back, without our host."""
        response = requests.get(address, cookies={"user": user}, allow_redirects=False, timeout=_PATIENCE)
        assert response.status_code == 302, response.text
        parts = urlsplit(response.headers["Location"])
        return f"{parts.path}?{parts.query}"

    def log_in(self, client: Client, *, user: str = "vera", onward: str = "") -> HttpResponse:
        """Return our response to the answer of the provider about this user."""
        begun = client.get(BEGIN, {"next": onward} if onward else {})
        return client.get(self.answer(begun["Location"], user=user))


@contextmanager
def running_provider(redirect_uri: str) -> Iterator[Provider]:
    """Run a provider that sends browsers back to this address."""
    command = [sys.executable, "-m", "tests.support.oidc_provider", redirect_uri]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=places.BASE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Provider(**json.loads(process.stdout.readline()))
        finally:
            process.terminate()
