"""
The account under which the server runs.

An ordinary user runs it under that user's own account. PostgreSQL refuses to run as root, so for root there are two
ways:

1. A user namespace in which root's uid maps to that of another account. To the kernel's file system the server is
    still root, so root still owns all files, and no directory needs wider permissions. The server sees itself as
    another user, and has none of root's privileges over other users' files.
2. The server really runs as another account, which becomes the owner of the data directory. This is for machines
    without namespaces (most containers), and for paths through a closed directory of another user. In another user's
    home, the account is the owner of the home. Elsewhere it is `nobody`, which may need a traverse bit on directories
    such as /root. We could give the server the privilege to pass without one, but then any user who can change its
    files would be root.

util-linux does all this, and is on every Debian. In each case the kernel is told to ask the server for a smart shutdown
when its parent, the guardian, ends.
"""

import os
import pwd
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from crawlctl.postgres.binaries import Binaries
from crawlctl.postgres.errors import USE_ANOTHER, EmbeddedPostgresError
from crawlctl.postgres.home import Home

Announce = Callable[[str], None]

_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM")


@dataclass(frozen=True)
class Account:
    """The way to run a program under the server's account: its command prefix, and the owner of its files."""

    prefix: tuple[str, ...]
    uid: int
    gid: int

    def owns(self, path: Path) -> bool:
        found = path.lstat()
        return (found.st_uid, found.st_gid) == (self.uid, self.gid)

    def take_over(self, path: Path) -> None:
        """Give the file, or the directory with all its content, to the account."""
        if not path.is_symlink() and path.is_dir():
            for entry in path.iterdir():
                self.take_over(entry)
        # A directory is changed after its content. So a directory of the account is complete, even after a kill.
        if not self.owns(path):
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def choose_account(*, home: Home, binaries: Binaries, announce: Announce) -> Account:
    """
    Return the account under which to run the server. Announce each directory that had to be opened for it.

    Raises:
        EmbeddedPostgresError: no account that we may use can reach the binaries and the data.
    """
    if os.geteuid() != 0:
        return _ourselves(home)
    owner = home.data.stat().st_uid if home.data.exists() else 0
    if owner == 0:
        in_namespace = _root_in_a_namespace()
        if _reaches(in_namespace, home=home, binaries=binaries):
            return in_namespace
    account = _another_account(home=home, binaries=binaries, owner=owner)
    if _reaches(account, home=home, binaries=binaries):
        return account
    _make_path_accessible(account, home=home, binaries=binaries, announce=announce)
    if _reaches(account, home=home, binaries=binaries):
        return account
    raise EmbeddedPostgresError(
        f"the embedded PostgreSQL may not run as root, and {_name_of(account.uid)} cannot read both {binaries.directory} "
        f"and {home.directory}: run this as an ordinary user, or {USE_ANOTHER}"
    )


def _ourselves(home: Home) -> Account:
    if home.data.exists() and (owner := home.data.stat().st_uid) != os.geteuid():
        raise EmbeddedPostgresError(
            f"{home.data} belongs to {_name_of(owner)}, who ran this before: run it as {_name_of(owner)}, "
            f"use a clone of your own, or {USE_ANOTHER}"
        )
    return Account(prefix=_WITH_PARENT, uid=os.geteuid(), gid=os.getegid())


def _root_in_a_namespace() -> Account:
    # initdb looks up the name of its account, so the uid must have one.
    number = str(_unprivileged().pw_uid)
    enter = ("unshare", "--user", f"--map-user={number}", f"--map-group={number}")
    # The namespace comes first: entering it changes the credentials, which clears the parent's-death signal.
    return Account(prefix=(*enter, *_WITH_PARENT), uid=0, gid=os.getegid())


def _another_account(*, home: Home, binaries: Binaries, owner: int) -> Account:
    closed = next((path for path in _directories_on_path(home=home, binaries=binaries) if not _is_open(path)), None)
    uid = owner or (closed.stat().st_uid if closed else 0)
    try:
        entry = pwd.getpwuid(uid) if uid else _unprivileged()
    except KeyError:
        # The owner has no name here (another machine's uid), and a new cluster needs one.
        entry = _unprivileged()
    run_as = ("setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--pdeathsig", "TERM")
    return Account(prefix=run_as, uid=entry.pw_uid, gid=entry.pw_gid)


def _unprivileged() -> pwd.struct_passwd:
    others = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    if not others:
        raise EmbeddedPostgresError(
            f"the embedded PostgreSQL may not run as root, and this machine has no other account: {USE_ANOTHER}"
        )
    return next((entry for entry in others if entry.pw_name == "nobody"), others[0])


def _reaches(account: Account, *, home: Home, binaries: Binaries) -> bool:
    """True if a program under that account reaches the data, and the server's program starts."""
    script = 'cd "$1" && exec "$2" --version'
    probe = [*account.prefix, "sh", "-c", script, "sh", str(home.directory), str(binaries.postgres)]
    result = subprocess.run(probe, capture_output=True, text=True, check=False, cwd="/")
    return result.returncode == 0 and re.search(r"PostgreSQL", result.stdout) is not None


def _make_path_accessible(account: Account, *, home: Home, binaries: Binaries, announce: Announce) -> None:
    for path in _directories_on_path(home=home, binaries=binaries):
        if _is_open(path) or path.stat().st_uid == account.uid:
            continue
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(before | stat.S_IXOTH)
        announce(
            f"note: other accounts may now pass through {path} (mode {before:o} is now {before | stat.S_IXOTH:o}), "
            f"because PostgreSQL does not run as root, and {_name_of(account.uid)} has to reach it"
        )


def _directories_on_path(*, home: Home, binaries: Binaries) -> Iterator[Path]:
    """Yield each directory on the paths to the data and to the binaries once, from the root down."""
    seen: set[Path] = set()
    for end in (home.directory.resolve(), binaries.directory.resolve()):
        for path in (*reversed(end.parents), end):
            if path not in seen:
                seen.add(path)
                yield path


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXOTH)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the account with the number {uid}"
