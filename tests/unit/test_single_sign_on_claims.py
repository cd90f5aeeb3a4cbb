"""
Proves that valid claims of a provider give a user and a role, and that invalid claims and metadata are refused.
"""

import pytest

from crawlctl.access.single_sign_on.identity import groups_in, identity_of, roles_of
from crawlctl.access.single_sign_on.provider import _checked_metadata
from tests.support.tables import each_row

ISSUER = "https://login.example.org/realm"
METADATA = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
    "id_token_signing_alg_values_supported": ["HS256", "ES256", "none", "RS256"],
}


def identify(**claims):
    known = {"sub": "1-a", "preferred_username": "vera", "groups": ["watch"]}
    return identity_of(
        known | claims,
        issuer=ISSUER,
        name_claim="preferred_username",
        groups_claim="groups",
        mapping=("watch=viewer",),
    )


@each_row(
    ("claim", "groups"),
    [
        ("groups", {"watch", "crawl"}),
        ("realm.roles", {"inner"}),
        ("https://example.org/groups", {"outer"}),
        ("single", {"one group"}),
        ("number", set()),
        ("absent", set()),
        ("groups.inner", set()),
        ("realm.absent.deeper", set()),
    ],
)
def test_groups_are_found_in_a_claim_by_its_name_or_its_path(claim, groups):
    claims = {
        "groups": ["watch", "crawl", 7],
        "realm": {"roles": ["inner"]},
        "https://example.org/groups": ["outer"],
        "single": "one group",
        "number": 7,
    }

    assert groups_in(claims, claim) == groups


def test_each_group_has_its_role_and_other_groups_have_none():
    mapping = ("own=administrator", "cn=watch=viewer", "/crawl/night=operator")

    assert roles_of({"/crawl/night", "cn=watch", "other"}, mapping) == ("viewer", "operator")
    assert roles_of({"OWN", "own "}, mapping) == ()


@each_row("subject", ["", None, 7, "a" * 256, "a\0b"])
def test_claims_without_a_valid_subject_are_no_user(subject):
    assert identify(sub=subject) is None


@each_row("name", ["", None, 7, "a b", "<b>", "a" * 151, "a\0b", "vera\n"])
def test_a_claimed_name_that_no_user_can_have_is_not_used(name):
    assert identify(preferred_username=name).name == ""


def test_a_claimed_name_is_read_in_the_form_in_which_it_is_stored():
    assert identify(preferred_username="\uff41dmin").name == "admin"


def test_only_asymmetric_signatures_are_accepted():
    assert _checked_metadata(METADATA, ISSUER)["id_token_signing_alg_values_supported"] == ["ES256", "RS256"]
    with pytest.raises(ValueError, match="no asymmetric signature"):
        _checked_metadata({**METADATA, "id_token_signing_alg_values_supported": ["HS256", "none"]}, ISSUER)


@each_row(
    "change",
    [
        {"issuer": f"{ISSUER}/"},
        {"token_endpoint": "http://login.example.org/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"end_session_endpoint": "javascript:alert(1)"},
    ],
)
def test_metadata_of_another_issuer_or_without_tls_are_refused(change):
    with pytest.raises(ValueError, match=r"issuer|https"):
        _checked_metadata(METADATA | change, ISSUER)
