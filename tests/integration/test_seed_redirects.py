"""Proves that redirects of ended seeds leave the database, and that all other redirects stay."""

import pytest
from django.db import connection

from jobs.connectors.repository.base import hash_of
from jobs.loops.worker.sharing import forget_redirects
from jobs.models import SeedRedirect
from tests.support.factories import make_job

pytestmark = pytest.mark.django_db


def test_forgotten_redirects_lead_nowhere_and_others_stay():
    job, other = make_job(), make_job()
    for of in (job, other):
        for name in "abc":
            source, target = f"http://{name}.example/", f"http://www.{name}.example/"
            SeedRedirect.objects.create(
                job=of,
                hash=hash_of(source),
                source=source,
                target_hash=hash_of(target),
                target=target,
                target_host=f"www.{name}.example",
                is_followed=True,
            )

    forget_redirects(connection.connection, job=job.pk, sources=["http://a.example/", "http://c.example/"])

    left = SeedRedirect.objects.order_by("job", "source").values_list("job", "source")
    assert list(left) == [
        (job.pk, "http://b.example/"),
        *((other.pk, f"http://{name}.example/") for name in "abc"),
    ]
