"""Proves LDAP directories as authorities and mappers, with Debian's slapd as the server."""

import asyncio
import signal
import time

import pytest

from jobs.connectors.authority.kind import Limits, Status, Unreachable
from jobs.connectors.authority.ldap.access import sid_in_words
from jobs.connectors.authority.ldap.directory import users_elsewhere_in_words
from jobs.connectors.authority.ldap.kinds import AUTHORITY, MAPPER
from tests.support.slapd import BASE, in_base64, sid, slapd
from tests.support.tables import each_row

pytestmark = pytest.mark.debian("slapd")

PEOPLE, GROUPS = f"ou=people,{BASE}", f"ou=groups,{BASE}"
HOSTILE = ["*", "alice)(uid=*", "*)(|(uid=*", "alice\\", "\\2a", "al\u0000ice", "(", "alice)", "a" * 500]
_MANY = "".join(
    f"dn: cn=many-{number},{GROUPS}\nobjectClass: groupOfNames\ncn: many-{number}\nmember: uid=mona,{PEOPLE}\n\n"
    for number in range(700)
)
ENTRIES = f"""\
dn: {PEOPLE}
objectClass: organizationalUnit

dn: {GROUPS}
objectClass: organizationalUnit

dn: uid=alice,{PEOPLE}
objectClass: inetOrgPerson
objectClass: posixAccount
uid: alice
cn: Alice
sn: A
mail: alice.a@example.org
uidNumber: 1
gidNumber: 500
homeDirectory: /

dn: uid=bob,{PEOPLE}
objectClass: inetOrgPerson
uid: bob
cn: Bob
sn: B
mail: one@example.org
mail: two@example.org

dn: uid=mona,{PEOPLE}
objectClass: inetOrgPerson
uid: mona
cn: Mona
sn: M

dn: uid=twin,{PEOPLE}
objectClass: inetOrgPerson
uid: twin
cn: One twin
sn: T

dn: uid=twin,{GROUPS}
objectClass: inetOrgPerson
uid: twin
cn: Another twin
sn: T

dn: cn=staff (all),{GROUPS}
objectClass: groupOfNames
cn: staff (all)
member: uid=alice,{PEOPLE}
member: cn=loop,{GROUPS}

dn: cn=company,{GROUPS}
objectClass: groupOfUniqueNames
cn: company
uniqueMember: cn=staff (all),{GROUPS}

dn: cn=loop,{GROUPS}
objectClass: groupOfNames
cn: loop
member: cn=company,{GROUPS}

dn: cn=unix,{GROUPS}
objectClass: posixGroup
cn: unix
gidNumber: 600
memberUid: alice

dn: cn=primary,{GROUPS}
objectClass: posixGroup
cn: primary
gidNumber: 500

dn: cn=others,{GROUPS}
objectClass: groupOfNames
cn: others
member: uid=bob,{PEOPLE}

dn: cn=Carol,{PEOPLE}
objectClass: inetOrgPerson
objectClass: user
cn: Carol
sn: C
sAMAccountName: carol
userAccountControl: 512
objectSid:: {in_base64(sid(21, 1, 2, 3, 1001))}
tokenGroups:: {in_base64(sid(21, 1, 2, 3, 513))}
tokenGroups:: {in_base64(sid(32, 545))}

dn: cn=Dave,{PEOPLE}
objectClass: inetOrgPerson
objectClass: user
cn: Dave
sn: D
sAMAccountName: dave
userAccountControl: 514
objectSid:: {in_base64(sid(21, 1, 2, 3, 1002))}

{_MANY}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with slapd(tmp_path_factory.mktemp("slapd") / "server", ENTRIES) as running:
        yield running


def opened(kind, configuration, *, seconds=5.0, at_once=2):
    assert kind.problems(configuration) == {}
    return kind.open(kind.configuration.read(configuration), Limits(at_once=at_once, seconds=seconds))


def ask(kind, configuration, *users):
    """Return the answers about users, one after another, of one opened connection."""

    async def asking():
        authority = opened(kind, configuration)
        try:
            return [await (authority.map(user) if kind is MAPPER else authority.access(user)) for user in users]
        finally:
            await authority.close()

    return asyncio.run(asking())


def checked(kind, configuration):
    """Return the text with which a connection answers a check."""

    async def checking():
        authority = opened(kind, configuration)
        try:
            return await authority.check()
        finally:
            await authority.close()

    return asyncio.run(checking())


def test_tokens_are_all_groups_including_nested_and_circular_groups(server):
    (alice,) = ask(AUTHORITY, server.configuration(group_attribute="cn"), "alice")

    assert alice.status is Status.AUTHORIZED
    assert alice.tokens == ("company", "loop", "primary", "staff (all)", "unix")


def test_a_user_gets_a_personal_token_if_an_attribute_is_configured(server):
    (bob,) = ask(AUTHORITY, server.configuration(group_attribute="cn", user_attribute="uid"), "bob")

    assert bob.tokens == ("others", "user:bob")


def test_without_an_attribute_a_token_is_the_name_of_the_entry(server):
    (bob,) = ask(AUTHORITY, server.configuration(), "bob")

    assert bob.tokens == (f"cn=others,{GROUPS}",)


def test_all_groups_are_found_even_if_the_server_returns_pages(server):
    (mona,) = ask(AUTHORITY, server.configuration(group_attribute="cn"), "mona")

    assert len(mona.tokens) == 700


@each_row("user", HOSTILE)
def test_a_user_name_cannot_change_the_filter(server, user):
    authority, mapper = server.configuration(), server.configuration(attribute="mail")

    assert [one.status for one in ask(AUTHORITY, authority, user)] == [Status.USER_NOT_FOUND]
    assert ask(MAPPER, mapper, user) == [None]


def test_a_user_name_that_matches_two_entries_is_refused(server):
    (twin,) = ask(AUTHORITY, server.configuration(), "twin")

    assert twin.status is Status.UNAUTHORIZED
    assert twin.tokens == ()


def test_active_directory_gives_sids_and_refuses_disabled_accounts(server):
    configuration = server.configuration(directory="active_directory")

    carol, dave, nobody = ask(AUTHORITY, configuration, "carol", "dave", "erin")

    assert carol.tokens == ("S-1-1-0", "S-1-5-11", "S-1-5-21-1-2-3-1001", "S-1-5-21-1-2-3-513", "S-1-5-32-545")
    assert dave.status is Status.UNAUTHORIZED
    assert nobody.status is Status.USER_NOT_FOUND


def test_a_mapper_returns_the_only_value_of_an_attribute(server):
    configuration = server.configuration(attribute="mail")

    assert ask(MAPPER, configuration, "alice", "bob", "nobody") == ["alice.a@example.org", None, None]


@each_row("starts_tls", [True, False])
def test_tls_needs_a_certificate_that_can_be_checked(server, starts_tls):
    servers = {"servers": [server.url if starts_tls else server.tls_url], "starts_tls": starts_tls}
    trusted = server.configuration(**servers, certificates=server.certificate.splitlines(), group_attribute="cn")

    assert ask(AUTHORITY, trusted, "bob")[0].tokens == ("others",)
    with pytest.raises(Unreachable, match=r"(?i)certificate"):
        ask(AUTHORITY, server.configuration(**servers), "bob")


@each_row(
    ("facts", "problem"),
    [
        ({"password": "wrong"}, "refuses the account"),
        ({"servers": ["ldap://127.0.0.1:1"]}, "cannot be used"),
        ({"base": "dc=nowhere"}, "says"),
    ],
)
def test_a_directory_without_an_answer_is_unreachable(server, facts, problem):
    with pytest.raises(Unreachable, match=problem) as raised:
        ask(AUTHORITY, server.configuration(**facts), "alice")

    assert "wrong" not in str(raised.value).replace("wrong name or password", "")


def test_groups_on_another_server_make_the_authority_unreachable(tmp_path):
    entries = f"""\
dn: {PEOPLE}
objectClass: organizationalUnit

dn: {GROUPS}
objectClass: organizationalUnit

dn: uid=bob,{PEOPLE}
objectClass: inetOrgPerson
uid: bob
cn: Bob
sn: B

dn: cn=others,{GROUPS}
objectClass: groupOfNames
cn: others
member: uid=bob,{PEOPLE}

dn: ou=abroad,{BASE}
objectClass: referral
objectClass: extensibleObject
ou: abroad
ref: ldap://abroad.example/ou=groups,dc=abroad
"""
    with slapd(tmp_path / "server", entries) as server:
        everywhere = server.configuration(group_attribute="cn")
        with pytest.raises(Unreachable, match=f"A part of {BASE} is on another server.*ldap://abroad.example/"):
            ask(AUTHORITY, everywhere, "bob")

        narrow, missing = ask(AUTHORITY, {**everywhere, "groups_base": GROUPS}, "bob", "bert")
        remark, no_remark = checked(AUTHORITY, everywhere), checked(AUTHORITY, {**everywhere, "base": PEOPLE})

    assert narrow.tokens == ("others",)
    assert missing.status is Status.USER_NOT_FOUND
    assert missing.why == remark
    assert remark.startswith(f"A part of {BASE} is on another server, which is not asked: ldap://abroad.example/")
    assert remark.endswith("Users there are not found.")
    assert no_remark == ""


def test_the_zones_of_active_directory_do_not_count_as_missing_users():
    zone = "ldap://ForestDnsZones.ad.example/DC=ForestDnsZones,DC=ad,DC=example"
    others = [
        "ldap://ad.example/CN=Configuration,DC=ad,DC=example",
        "ldap://DomainDnsZones.ad.example/dc=domaindnszones,dc=ad,dc=example",
    ]

    assert users_elsewhere_in_words("DC=ad,DC=example", [zone, *others]) == ""
    child = "ldap://child.ad.example/DC=child,DC=ad,DC=example"
    assert child in users_elsewhere_in_words("DC=ad,DC=example", [zone, child])


def test_the_next_ldap_server_is_asked_if_a_server_does_not_answer(server):
    configuration = server.configuration(servers=["ldap://127.0.0.1:1", server.url], group_attribute="cn")

    assert ask(AUTHORITY, configuration, "bob")[0].tokens == ("others",)


def test_an_idle_session_that_the_server_closed_is_opened_again(tmp_path):
    async def asking(first, second):
        authority = opened(AUTHORITY, first.configuration(group_attribute="cn", servers=[first.url, second.url]))
        before = await authority.access("bob")
        first.process.kill()
        first.process.wait()
        after = await authority.access("bob")
        await authority.close()
        return before, after

    with slapd(tmp_path / "a", ENTRIES) as first, slapd(tmp_path / "b", ENTRIES) as second:
        before, after = asyncio.run(asking(first, second))

    assert before == after
    assert after.tokens == ("others",)


def test_a_cancelled_question_frees_its_thread(tmp_path):
    async def asking(running):
        authority = opened(AUTHORITY, running.configuration(group_attribute="cn"), seconds=60, at_once=1)
        await authority.access("bob")
        running.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(authority.access("bob"), 0.2)
        finally:
            running.process.send_signal(signal.SIGCONT)
        # If the question still waited in the only thread, the thread would be busy for a minute.
        found = await asyncio.wait_for(authority.access("bob"), 20)
        await authority.close()
        return found

    with slapd(tmp_path / "server", ENTRIES) as running:
        began = time.monotonic()
        assert asyncio.run(asking(running)).tokens == ("others",)
        assert time.monotonic() - began < 30


@each_row(
    ("facts", "field"),
    [
        ({"servers": []}, "servers"),
        ({"servers": ["http://a.example"]}, "servers"),
        ({"servers": ["ldap://user@a.example"]}, "servers"),
        ({"user_filter": "(uid=alice)"}, "user_filter"),
        ({"user_filter": "(&(uid={user})"}, "user_filter"),
        ({"certificates": ["nonsense"]}, "certificates"),
        ({"password": ""}, "password"),
        ({"bind_dn": ""}, "bind_dn"),
        ({"base": " "}, "base"),
        ({"directory": "novell"}, "directory"),
    ],
)
def test_an_invalid_configuration_of_ldap_is_refused(facts, field):
    configuration = {"servers": ["ldap://a.example"], "bind_dn": "cn=a", "password": "b", "base": BASE, **facts}

    assert list(AUTHORITY.problems(configuration)) == [field]


@each_row("raw", [b"", b"\x01", sid(1)[:-1], sid(1) + b"x", b"\x01\xff" + b"\0" * 6])
def test_bytes_that_are_no_sid_are_refused(raw):
    with pytest.raises(ValueError):  # noqa: PT011 (the message is the bytes)
        sid_in_words(raw)
