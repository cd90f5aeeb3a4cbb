"""The directory of one embedded server: its files and their meaning."""

import os
import stat
import tempfile
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from crawlctl.postgres.errors import EmbeddedPostgresError

DATABASE = "crawlctl"
USER = "crawlctl"
# The port only names the socket's file: the server does not listen on TCP.
PORT = 5432

_SOCKET_PREFIX = "crawlctl-"
# The address of a Unix socket holds 108 bytes, including the final zero.
_LONGEST_SOCKET_PATH = 107
_LONGEST_SOCKET_NAME = f"/.s.PGSQL.{PORT}.lock"


@dataclass(frozen=True)
class Home:
    """The paths below the home directory, which is absolute."""

    directory: Path

    @property
    def users_lock(self) -> Path:
        return self.directory / "users.lock"

    @property
    def starting_lock(self) -> Path:
        return self.directory / "starting.lock"

    @property
    def guardian_lock(self) -> Path:
        return self.directory / "guardian.lock"

    @property
    def address(self) -> Path:
        """Return the file with the server's address. It exists while the server takes connections."""
        return self.directory / "address"

    @property
    def socket_link(self) -> Path:
        """Return the link to the directory of the socket, which is elsewhere, because this path may be too long."""
        return self.directory / "socket"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def unfinished_data(self) -> Path:
        """
        Return the directory in which a new cluster is created. It is renamed when it is complete, so `data` is always
        complete.
        """
        return self.directory / "data.unfinished"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    def read_address(self) -> str | None:
        try:
            return self.address.read_text(encoding="utf-8").strip() or None
        except FileNotFoundError:
            return None

    def write_address(self, address: str) -> None:
        """Publish the address. A reader gets the whole address or no file."""
        unfinished = self.address.with_suffix(".unfinished")
        unfinished.write_text(f"{address}\n", encoding="utf-8")
        unfinished.replace(self.address)

    def withdraw_address(self) -> None:
        self.address.unlink(missing_ok=True)

    def claim_socket_directory(self, *, owner: int) -> Path:
        """
        Return a directory for the socket, of mode 0700 and owned by us or by `owner`.

        The directory of a killed guardian is used again, so that its users, which know this address, find the new
        server. A directory is reused only if no other user can have created it.
        """
        if (left_behind := self._socket_directory_left_behind(owner=owner)) is not None:
            return left_behind
        directory = Path(tempfile.mkdtemp(prefix=_SOCKET_PREFIX, dir=_short_temporary_directory()))
        self.socket_link.unlink(missing_ok=True)
        self.socket_link.symlink_to(directory)
        return directory

    def remove_socket_directory(self, directory: Path) -> None:
        remove_sockets(directory)
        directory.rmdir()
        if self.socket_link.is_symlink() and self.socket_link.readlink() == directory:
            self.socket_link.unlink()

    def _socket_directory_left_behind(self, *, owner: int) -> Path | None:
        try:
            directory = self.socket_link.readlink()
            found = directory.lstat()
        except OSError:
            return None
        is_ours = (
            stat.S_ISDIR(found.st_mode)
            and found.st_uid in {os.geteuid(), owner}
            and stat.S_IMODE(found.st_mode) == stat.S_IRWXU
            and directory.name.startswith(_SOCKET_PREFIX)
        )
        return directory if is_ours else None


def address_of(socket_directory: Path) -> str:
    """Return the libpq URI of our database behind that socket."""
    host = urllib.parse.quote(str(socket_directory), safe="")
    return f"postgresql://{USER}@/{DATABASE}?host={host}&port={PORT}"


def remove_sockets(directory: Path) -> None:
    """Remove the files of a killed server: its socket, and the lock file with its pid."""
    for leftover in directory.glob(".s.PGSQL.*"):
        leftover.unlink(missing_ok=True)


def _short_temporary_directory() -> Path:
    """Return the system's temporary directory, or /tmp if its path is too long for a socket."""
    for candidate in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp creates an unpredictable, private directory in it
        # mkdtemp adds eight characters to the prefix.
        longest = f"{candidate}/{_SOCKET_PREFIX}{'x' * 8}{_LONGEST_SOCKET_NAME}"
        if len(os.fsencode(longest)) <= _LONGEST_SOCKET_PATH and os.access(candidate, os.W_OK | os.X_OK):
            return Path(candidate)
    raise EmbeddedPostgresError(
        f"no directory for the database's socket: {tempfile.gettempdir()} is too long a path for one, and /tmp cannot be "
        "written. Set TMPDIR to a writable directory with a path of less than 70 characters"
    )
