"""Proves that django-q2 receives only the number and the epoch of a task."""

import pytest
from django_q.core_signing import BadSignature
from django_q.signing import SignedPackage

from nodes.tasks.broker import package_of


def test_a_package_holds_a_number_and_an_epoch():
    package = SignedPackage.loads(package_of(17, 3))

    assert (package["func"], package["args"], package["kwargs"]) == ("nodes.tasks.execution.execute", (17, 3), {})


def test_a_package_with_another_signature_is_refused():
    package = package_of(17, 3)
    forged = package[:-3] + ("abc" if package[-3:] != "abc" else "xyz")

    with pytest.raises(BadSignature):
        SignedPackage.loads(forged)
