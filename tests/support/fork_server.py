"""
The parent of forked processes (`tests.support.forking`): it has imported crawlctl, and has no thread and no connection.

`python -m tests.support.fork_server NUMBER ROOM` forks a process for each request on the socket of that number. The
length of ROOM is the room for the command line that `ps` shows.

The imports have read the environment of the parent. So a forked process first builds Django's settings again. If a
setting differs that an import has read, or a variable that Python itself reads at its start, the process executes a new
Python. So a forked command never runs with a value of another environment.
"""

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
from types import SimpleNamespace

_PR_SET_PDEATHSIG = 1
_INTERRUPTED = 130
_LARGEST_REQUEST = 1 << 20
# Largest number of files in a request: standard input, output and errors, the report, and sockets that a parent keeps
# open for a service.
_MOST_FILES = 8
# Lowest temporary descriptor of a received file: above all descriptors to which the files are copied.
_ASIDE = 200
# Commands that start other processes of crawlctl.
_PARENTS = {"crawl", "run", "demo", "drill"}
_SETTINGS = ("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
# Directories of PYTHONPATH below tests/support that also work if they are added after the imports.
_ALSO_AFTER_IMPORTS = {"site_names"}
# Prefixes of variables that the interpreter or the C library reads at its start.
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "GLIBC", "MALLOC", "OPENSSL", "SSL_", "COVERAGE")


class _Imported:
    """The imported modules, and the values that they have read: settings and variables of the interpreter."""

    def __init__(self):
        import manage  # noqa: F401

        os.environ.setdefault(*_SETTINGS)
        import django
        from django.conf import settings
        from django.core.management import get_commands, load_command_class
        from django.db.migrations.loader import MigrationLoader

        django.setup()
        for name, application in get_commands().items():
            if application.partition(".")[0] in {"crawlctl", "jobs", "nodes"}:
                load_command_class(application, name)
        # A million iterations take a quarter of a second at each log-in, as in `quick_hashes` of tests/conftest.py.
        from django.contrib.auth.hashers import PBKDF2PasswordHasher

        PBKDF2PasswordHasher.iterations = 1000
        # Daemons compare the migrations of the program with those of the database.
        MigrationLoader(None)
        for module in ("crawlctl.urls", "crawlctl.live.routing", "crawlctl.demo.site", "channels.routing"):
            importlib.import_module(module)
        # These settings may differ: connections are made after the fork, and UNFOLD is a constant with lazy links.
        # `_apply_directory` handles the directory and its key.
        names = {*vars(settings)} - {"_wrapped", "DATABASES", "UNFOLD", "SECRET_KEY", "VAR_DIR"}
        self._settings = {name: getattr(settings, name) for name in names}
        self._variables = _variables_of_the_interpreter()
        self._path = _path_of_variables()

    def suits_this_environment(self):
        """Build the settings again, and return True if the imported modules would not differ in a new Python."""
        from django.conf import settings
        from django.db import connections
        from django.utils.functional import empty

        os.environ.setdefault(*_SETTINGS)
        if _variables_of_the_interpreter() != self._variables or not self._extend_path():
            return False
        time.tzset()
        settings._wrapped = empty
        try:
            _forget_directory()
            importlib.reload(sys.modules["crawlctl.settings"])
            if any(getattr(settings, name) != value for name, value in self._settings.items()):
                return False
        except Exception:  # noqa: BLE001 - the command itself reports it
            return False
        _apply_directory(settings)
        vars(connections).pop("settings", None)
        connections.__init__()
        return True

    def _extend_path(self):
        """Add the further directories of PYTHONPATH, and return True if the imported modules do not depend on them."""
        path = _path_of_variables()
        further = [directory for directory in path if directory not in self._path]
        if [directory for directory in path if directory in self._path] != self._path:
            return False
        for directory in reversed(further):
            start = os.path.join(directory, "sitecustomize.py")  # noqa: PTH118
            if os.path.exists(start):  # noqa: PTH110
                if os.path.basename(directory) not in _ALSO_AFTER_IMPORTS:  # noqa: PTH119
                    return False
                runpy.run_path(start)
            sys.path.insert(1, directory)
        return True


def _forget_directory():
    """Forget the directory whose free space the metrics show. The settings name the present one."""
    from jobs.metrics.process import DISK_FREE

    DISK_FREE._followed.clear()


def _apply_directory(settings):
    """Apply the key of the directory, which django-q2 has read."""
    from django_q.conf import Conf

    Conf.SECRET_KEY = settings.SECRET_KEY


def _variables_of_the_interpreter():
    read = {name: value for name, value in os.environ.items() if name.startswith((*_READ_AT_START, _SETTINGS[0]))}
    return {name: value for name, value in read.items() if name != "PYTHONPATH"}


def _path_of_variables():
    return [directory for directory in os.environ.get("PYTHONPATH", "").split(os.pathsep) if directory]


# --- The parent ----------------------------------------------------------------------------------


def _serve(line):
    """
    Fork a process for each request. Return the request in each forked process, and None in this process when the socket
    closes.
    """
    children = {}
    while True:
        ready, _, _ = select.select([line, *children], [], [])
        for ended in ready:
            if ended is not line:
                pid, report = children.pop(ended)
                _tell(report, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                os.close(report)
                os.close(ended)
        if line not in ready:
            continue
        asked, files, _flags, _address = socket.recv_fds(line, _LARGEST_REQUEST, _MOST_FILES)
        if not asked:
            return None
        assert os.listdir("/proc/self/task") == [str(os.getpid())], "a process with threads must not fork"  # noqa: PTH208
        report, *files = files
        if (pid := os.fork()) == 0:
            line.close()
            for inherited in (report, *children, *(file for _, file in children.values())):
                os.close(inherited)
            return json.loads(asked) | {"files": files}
        children[os.pidfd_open(pid)] = pid, report
        _tell(report, pid)
        for file in files:
            os.close(file)


def _tell(report, number):
    try:
        os.write(report, b"%d\n" % number)
    except BrokenPipeError:
        # The starter no longer exists.
        return


# --- A forked process ----------------------------------------------------------------------------


def _end_with_parent(parent):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _show_words(words, room):
    """Replace the command line and the environment that `ps` shows. The environment is cut if its place is too short."""
    with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123
        begin, end, begin_environment, end_environment = (
            int(field) for field in stat.read().rpartition(b")")[2].split()[45:49]
        )
    assert end - begin >= room
    _show(begin, end, [os.fsencode(word) for word in words])
    # Variables of crawlctl come first, because the last variables may be cut. The C library no longer reads this place.
    ours_first = sorted(os.environb.items(), key=lambda item: not item[0].startswith(b"CRAWLCTL_"))
    _show(begin_environment, end_environment, [b"=".join(item) for item in ours_first])


def _show(begin, end, entries):
    shown = b"\0".join(entries)[: end - begin - 1]
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, shown, len(shown))


def _become(asked, parent):
    """
    Give this process the session, files and environment of the request. Until its program runs, an interrupt ends it,
    as in `manage.py`.
    """
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(_INTERRUPTED))
    if asked["has_session"]:
        os.setsid()
    if asked["ends_with_parent"]:
        _end_with_parent(parent)
    aside = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _ASIDE) for file in asked["files"]]
    for file in asked["files"]:
        os.close(file)
    for target, file in zip([0, 1, 2, *asked["keeps"]], aside, strict=True):
        os.dup2(file, target)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["environment"])


def _let_fork_children():
    """
    Let a command fork the processes that it starts.

    Return the request of such a process in that process, and None in the command.
    """
    from crawlctl.processes import supervisor
    from jobs.loops import oneshot
    from tests.support.forking import ForkServer

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = os.getpid()
    if os.fork() == 0:
        ours.close()
        os.setsid()
        _end_with_parent(command)
        nothing = os.open(os.devnull, os.O_RDWR)
        for target in range(3):
            os.dup2(nothing, target)
        os.close(nothing)
        if (asked := _serve(theirs)) is None:
            os._exit(0)
        return asked
    theirs.close()
    fork = functools.partial(ForkServer(ours).start, ends_with_parent=False)
    for module in (oneshot, supervisor):
        module.subprocess = SimpleNamespace(**{**vars(module.subprocess), "Popen": fork})
    return None


def _run(words):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    match words[1:]:
        case ["-m", "crawlctl.demo.site", *arguments]:
            from crawlctl.demo.site import main

            sys.argv = ["crawlctl.demo.site", *arguments]
            main(arguments)
        case [program, *arguments]:
            import manage

            sys.argv = [program, *arguments]
            manage.main()


def _set_machine():
    """Set the machine of a node in the chaos test, as `tests/chaos/inside` does in a new Python."""
    orders = json.loads(os.environ.get("CRAWLCTL_CHAOS", "{}"))
    assert not [name for name in ("stops", "mutant") if orders.get(name)], "these orders need a new Python"
    if "machine" in orders:
        from nodes.life import identity

        identity._boot_id = lambda: orders["machine"]


def _end(code):
    """
    End in Python's usual way, but let the kernel free the memory of imported modules. Python would need longer for that
    than for a start.
    """
    threading._shutdown()
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit((code or 0) & 0xFF)


def main():
    line, room = socket.socket(fileno=int(sys.argv[1])), len(sys.argv[2])
    imported = _Imported()
    # The pages of memory with the imported modules stay shared: no collection visits them.
    gc.collect()
    gc.freeze()
    gc.disable()
    parent = os.getpid()
    asked = _serve(line)
    while asked is not None:
        _become(asked, parent)
        if not imported.suits_this_environment():
            os.execve(sys.executable, asked["words"], os.environ)
        if _PARENTS & {*asked["words"][2:3]} and (of_child := _let_fork_children()) is not None:
            asked = of_child
            continue
        _show_words(asked["words"], room)
        gc.enable()
        try:
            _set_machine()
            _run(asked["words"])
        except SystemExit as ended:
            _end(ended.code)
        _end(0)


if __name__ == "__main__":
    main()
