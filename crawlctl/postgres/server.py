"""One PostgreSQL server: its cluster on disk, and its process, which is a child of ours."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from crawlctl.postgres.account import Account
from crawlctl.postgres.binaries import Binaries
from crawlctl.postgres.errors import USE_ANOTHER, EmbeddedPostgresError
from crawlctl.postgres.home import DATABASE, PORT, USER, Home, remove_sockets

# Longest time of a start (seconds): after a crash the server replays its log, at most `max_wal_size`, before it takes
# connections.
START_WITHIN = 120.0
# Longest time of a stop (seconds). A fast stop ends with a checkpoint. An immediate stop does not, so the next start
# replays the log.
_FAST_STOP_WITHIN = 20.0
_IMMEDIATE_STOP_WITHIN = 5.0
_POLL = 0.01

_LINES_OF_LOG_IN_AN_ERROR = 8

# Characters that a shell interprets between double quotes.
_MEANS_MORE_TO_A_SHELL = frozenset('"$`\\')

# Options on the command line of the server, so that an old cluster gets them, too. Durability keeps its default: on.
_OPTIONS = {
    # No TCP. The socket's directory is closed to others, so every process that reaches the socket may connect.
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    # Segments as files of the data directory: a killed server leaves nothing behind in /dev/shm.
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "64MB",
    # Fewer checkpoints mean fewer full-page images of the queue's hot pages.
    "max_wal_size": "2GB",
    # A receiver that is further behind loses its slot, so that the kept log does not fill the disk.
    "max_slot_wal_keep_size": "4GB",
    # Partitions exchange rows by logical replication: one receiver for each other partition.
    "wal_level": "logical",
    "max_wal_senders": "32",
    "max_replication_slots": "32",
    "max_worker_processes": "32",
    "max_logical_replication_workers": "16",
    "checkpoint_timeout": "15min",
    # An SSD, and queries of a few rows, for which compiling costs more than it saves.
    "random_page_cost": "1.1",
    "jit": "off",
    # A queue updates the same rows repeatedly, so autovacuum checks often and runs fast.
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_scale_factor": "0.05",
    "autovacuum_vacuum_cost_limit": "2000",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%a ",
    "log_checkpoints": "off",
    "lc_messages": "C",
}


@dataclass(frozen=True)
class Postmaster:
    """The running process."""

    process: subprocess.Popen[bytes]

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def stop(self) -> None:
        """Stop the server: fast, then immediately, then by force. Data is durable in any case."""
        steps = ((signal.SIGINT, _FAST_STOP_WITHIN), (signal.SIGQUIT, _IMMEDIATE_STOP_WITHIN))
        for signal_number, timeout in steps:
            if self.has_ended():
                return
            self.process.send_signal(signal_number)
            _wait_until(self.has_ended, within=timeout)
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class Server:
    """The server of one home. Only the holder of the guardian's lock may have one."""

    home: Home
    binaries: Binaries
    account: Account

    def has_cluster(self) -> bool:
        return self.home.data.exists()

    def create_cluster(self) -> None:
        """
        Create the cluster and our empty database in it, all or nothing.

        Raises:
            EmbeddedPostgresError: PostgreSQL could not create the cluster. The message ends with PostgreSQL's own
            message.
        """
        unfinished = self.home.unfinished_data
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(mode=0o700)
        self.account.take_over(unfinished)
        try:
            with self._initdb() as initdb:
                self._run_to_the_end(
                    "create", initdb, "-D", str(unfinished), "-U", USER,
                    "--encoding=UTF8", "--locale=C.UTF-8", "--auth-local=trust", "--auth-host=reject", "--no-instructions",
                )  # fmt: skip
            self._run_to_the_end(
                "create the database of", self.binaries.postgres, "--single", "-D", str(unfinished),
                "-c", "exit_on_error=on", "-c", "log_checkpoints=off", "postgres",
                commands=f"CREATE DATABASE {DATABASE};\n",
            )  # fmt: skip
            unfinished.rename(self.home.data)
            _make_durable(self.home.directory)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    @contextlib.contextmanager
    def _initdb(self) -> Iterator[Path]:
        """
        Provide the program that creates clusters, in a place where it works.

        The program passes its own resolved path to a shell, between double quotes. If the shell would change that path,
        a copy in another place is used.
        """
        if _MEANS_MORE_TO_A_SHELL.isdisjoint(str(self.binaries.directory.resolve())):
            yield self.binaries.initdb
            return
        with tempfile.TemporaryDirectory(prefix="crawlctl-") as place:
            copy = self.binaries.copy_to(Path(place))
            self.account.take_over(Path(place))
            yield copy.initdb

    def check_cluster(self) -> None:
        """
        Check that these binaries can run this cluster.

        Raises:
            EmbeddedPostgresError: another major version created it, or it is not a cluster.
        """
        try:
            made_by = (self.home.data / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise EmbeddedPostgresError(
                f"{self.home.data} is not a PostgreSQL data directory (it has no PG_VERSION): move it away, "
                "and a new one is made"
            ) from None
        ours = str(self.binaries.major)
        if made_by != ours:
            raise EmbeddedPostgresError(
                f"{self.home.data} was made by PostgreSQL {made_by}, and the embedded one is now {ours}: carry the data over "
                f"with pg_dump of the old version, or move the directory away and a new one is made, or {USE_ANOTHER}"
            )

    def take_over_cluster(self) -> None:
        """Give the cluster to the account, which may differ from the account of the last start."""
        if not self.account.owns(self.home.data):
            self.account.take_over(self.home.data)

    def start(
        self,
        *,
        socket_directory: Path,
        within: float = START_WITHIN,
        further: Mapping[str, str] | None = None,
        log: BinaryIO | None = None,
    ) -> Postmaster:
        """
        Start the process and return it when it takes connections. `further` are options of this start only.

        `log` is the open log of the home. In the guardian the log is standard error, so the guardian passes None.

        First end a server of this cluster that a killed guardian left running: two servers would destroy the cluster.
        After a crash or a reboot, the pid in its lock files may belong to any process. So the search is for PostgreSQL
        processes that work in this directory, and the lock files are deleted.

        Raises:
            EmbeddedPostgresError: the server did not start. The message ends with the last lines of its log.
        """
        _end_processes_of(self.home.data)
        (self.home.data / "postmaster.pid").unlink(missing_ok=True)
        remove_sockets(socket_directory)
        size_of_log = self.home.log.stat().st_size
        options = {**_OPTIONS, **(further or {}), "unix_socket_directories": _quoted(socket_directory)}
        arguments = [argument for name, value in options.items() for argument in ("-c", f"{name}={value}")]
        command = [*self.account.prefix, str(self.binaries.postgres), "-D", str(self.home.data), *arguments]
        output = 2 if log is None else log
        process = subprocess.Popen(
            command, cwd="/", env=_environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        postmaster = Postmaster(process)
        _wait_until(lambda: self._is_ready(process.pid) or postmaster.has_ended(), within=within)
        if not self._is_ready(process.pid) or postmaster.has_ended():
            postmaster.stop()
            end = last_lines(self.home.log, since=size_of_log)
            raise EmbeddedPostgresError(
                f"the embedded PostgreSQL did not start{_advice(end)}. The end of {self.home.log}:\n{end}"
            )
        return postmaster

    def _is_ready(self, pid: int) -> bool:
        """True if the last line of the lock file of that process says that the server is ready."""
        lines = _lines_of_pid_file(self.home.data)
        return len(lines) > 7 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"

    def _run_to_the_end(self, purpose: str, program: Path, *arguments: str, commands: str = "") -> None:
        result = subprocess.run(
            [*self.account.prefix, str(program), *arguments],
            cwd="/", env=_environment(), input=commands, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        if result.returncode != 0:
            raise EmbeddedPostgresError(
                f"cannot {purpose} the embedded PostgreSQL below {self.home.directory}{_advice(result.stdout)}. "
                f"The output of {program.name}:\n{_last(result.stdout)}"
            )


def last_lines(log: Path, *, since: int) -> str:
    """Return the last lines that were written to the log after its first `since` bytes."""
    with log.open("rb") as file:
        file.seek(since)
        return _last(file.read().decode("utf-8", errors="replace"))


def _advice(end: str) -> str:
    if "No space left on device" in end or "Disk quota exceeded" in end:
        return f", because no space is left there: make room, or {USE_ANOTHER}"
    return ""


def _last(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LINES_OF_LOG_IN_AN_ERROR:])


def _lines_of_pid_file(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _end_processes_of(data: Path) -> None:
    """End every PostgreSQL process of that cluster, and return after the last one has ended."""
    for signal_number, timeout in ((signal.SIGINT, _FAST_STOP_WITHIN), (signal.SIGQUIT, _IMMEDIATE_STOP_WITHIN)):
        pids = list(_processes_of(data))
        if not pids:
            return
        for pid in pids:
            _send(pid, signal_number)
        _wait_until(lambda: not any(_processes_of(data)), within=timeout)
    for pid in _processes_of(data):
        _send(pid, signal.SIGKILL)
    _wait_until(lambda: not any(_processes_of(data)), within=_IMMEDIATE_STOP_WITHIN)


def _processes_of(data: Path) -> Iterator[int]:
    """Yield the pids of the PostgreSQL processes that work in that directory, as all processes of its server do."""
    lines = _lines_of_pid_file(data)
    recorded = lines[0].strip() if lines else ""
    directory = data.stat()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text(encoding="utf-8", errors="replace").strip() != "postgres":
                continue
            works_here = os.path.samestat((process / "cwd").stat(), directory)
        except PermissionError:
            # Root without the privilege to read other users' processes: rely on the recorded pid.
            works_here = process.name == recorded
        except (FileNotFoundError, ProcessLookupError):
            continue
        if works_here:
            yield int(process.name)


def _send(pid: int, signal_number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal_number)


def _wait_until(holds: Callable[[], bool], *, within: float) -> None:
    deadline = time.monotonic() + within
    while not holds() and time.monotonic() < deadline:
        time.sleep(_POLL)


def _environment() -> dict[str, str]:
    """Return an environment without the user's PostgreSQL and language settings."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}


def _quoted(path: Path) -> str:
    """Return the path as one element of a list of directories in a PostgreSQL option."""
    return '"' + str(path).replace('"', '""') + '"'


def _make_durable(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
