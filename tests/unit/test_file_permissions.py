"""Proves that the tokens of a file admit no user whom its permissions (POSIX) would refuse."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.connectors.repository.access import NO_TOKENS, Level
from jobs.connectors.repository.filesystem.permissions import Grants, UnreadableList, level_of, read_grants

USERS, GROUPS = (1, 2, 3), (11, 12, 13)
READ = 4
BITS = st.integers(0, 7)
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32


def listed(mode, users, groups, mask):
    """Return an access control list with these entries, as Linux stores it."""
    entries = [(USER_OBJ, mode >> 6 & 7, 0), *((USER, bits, id_) for id_, bits in users.items())]
    entries += [(GROUP_OBJ, mode >> 3 & 7, 0), *((GROUP, bits, id_) for id_, bits in groups.items())]
    entries += [(MASK, mask, 0), (OTHER, mode & 7, 0)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def posix_allows(mode, users, groups, mask, *, owner, group, user, member_of):
    """True if a user may read the file, by the steps of acl(5)."""
    if user == owner:
        return bool(mode >> 6 & READ)
    if user in users:
        return bool(users[user] & mask & READ)
    matching = [mode >> 3 & mask] if group in member_of else []
    matching += [bits & mask for id_, bits in groups.items() if id_ in member_of]
    return any(bits & READ for bits in matching) if matching else bool(mode & READ)


def level(grants, everyone=""):
    return level_of(grants, bit=READ, everyone=everyone, user_token=lambda id_: f"user:{id_}", group_token=str)


def tokens(user, member_of, everyone):
    return {f"user:{user}", *map(str, member_of), *([everyone] if everyone else [])}


@given(
    mode=st.integers(0, 0o777),
    users=st.dictionaries(st.sampled_from(USERS), BITS, max_size=2),
    groups=st.dictionaries(st.sampled_from(GROUPS), BITS, max_size=2),
    mask=BITS,
    owner=st.sampled_from(USERS),
    group=st.sampled_from(GROUPS),
    user=st.sampled_from(USERS),
    member_of=st.sets(st.sampled_from(GROUPS)),
    everyone=st.sampled_from(["", "all"]),
)
def test_no_user_sees_a_file_that_its_list_denies(mode, users, groups, mask, owner, group, user, member_of, everyone):
    grants = read_grants(owner=owner, group=group, mode=mode, acl=listed(mode, users, groups, mask))

    is_seen = level(grants, everyone).admits(tokens(user, member_of, everyone))

    facts = {"owner": owner, "group": group, "user": user, "member_of": member_of}
    assert not is_seen or posix_allows(mode, users, groups, mask, **facts)


@given(
    owner=BITS, group=BITS, others=BITS, user=st.sampled_from(USERS), member_of=st.sets(st.sampled_from(GROUPS)),
    everyone=st.sampled_from(["", "all"]),
)  # fmt: skip
def test_usual_permissions_show_a_file_to_exactly_its_readers(owner, group, others, user, member_of, everyone):
    # Each class of users has at least the permissions of the next one.
    mode = (owner | group | others) << 6 | (group | others) << 3 | others
    grants = read_grants(owner=1, group=11, mode=mode, acl=None)

    is_seen = level(grants, everyone).admits(tokens(user, member_of, everyone))

    assert is_seen == posix_allows(mode, {}, {}, 7, owner=1, group=11, user=user, member_of=member_of)


def test_a_file_without_readers_is_not_public():
    assert level(Grants(1, 0, 0, groups={11: 0})) == Level((), ("user:1",))
    assert level(read_grants(owner=1, group=11, mode=0o100444, acl=None)) == NO_TOKENS


@pytest.mark.parametrize("damaged", [b"", struct.pack("<I", 1), struct.pack("<I", 2) + b"abc"])
def test_a_list_of_an_unknown_form_is_refused(damaged):
    with pytest.raises(UnreadableList):
        read_grants(owner=1, group=11, mode=0o644, acl=damaged)
