"""Start the provider, and print a line about it."""

import json
import os
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_args: object) -> None:
        pass


def main(redirect_uri: str) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.support.oidc_provider.settings"
    django.setup()

    from oauth2_provider.models import Application

    from tests.support.oidc_provider import behaviour

    call_command("migrate", run_syncdb=True, verbosity=0)
    behaviour.present.secret = secret = "a secret of crawlctl and the provider"
    application = Application.objects.create(
        name="crawlctl",
        client_type=Application.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
        algorithm=Application.RS256_ALGORITHM,
        redirect_uris=redirect_uri,
        post_logout_redirect_uris=redirect_uri.replace("provider/answer/", ""),
        client_secret=secret,
        # A hash of the secret would make each login slow.
        hash_client_secret=False,
        skip_authorization=True,
    )
    # One thread, as the database is in the memory of one connection.
    with make_server("127.0.0.1", 0, get_wsgi_application(), handler_class=_Quiet) as server:
        issuer = f"http://127.0.0.1:{server.server_port}/o"
        sys.stdout.write(json.dumps({"issuer": issuer, "client_id": application.client_id, "secret": secret}) + "\n")
        sys.stdout.flush()
        server.serve_forever()


main(*sys.argv[1:])
