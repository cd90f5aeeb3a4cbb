"""A demo with several partitions as a test sees it: its processes, which can be killed, and its progress."""

from contextlib import suppress

import psutil


def processes_in(directory):
    """
    Yield (partition, process) for each process whose environment names a directory below this one. The partition is the
    last part of that name.
    """
    for process in psutil.process_iter():
        try:
            var = process.environ().get("CRAWLCTL_VAR", "")
            if var.startswith(str(directory)) and process.status() != "zombie":
                yield var.rpartition("/")[2], process
        except psutil.Error:
            continue


def kill_node(directory, partition, name):
    """Kill the processes of a node. Return their number."""
    killed = 0
    for here, process in processes_in(directory):
        with suppress(psutil.Error):
            if here == partition and name in process.cmdline():
                process.kill()
                killed += 1
    return killed


def kill_server(directory, partition):
    """Kill all processes of the database server of a partition. Return their number; 0 while the server is down."""
    killed = 0
    with suppress(psutil.Error, OSError, ValueError, IndexError):
        server = server_of(directory, partition)
        for process in [server, *server.children()]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
                killed += 1
    return killed


def server_of(directory, partition):
    """
    Return the first process of the database server of a partition. Raise OSError or psutil.Error while the server is
    down.
    """
    file = partition_in(directory, partition) / "postgres" / "data" / "postmaster.pid"
    return psutil.Process(int(file.read_text().splitlines()[0]))


def partition_in(directory, partition):
    return next((directory / "var").glob("demo-*-partitions")) / partition


def count_requests(directory):
    logs = list((directory / "var").glob("demo-*-partitions/a/demo/site.log"))
    return len(logs[0].read_bytes().splitlines()) if logs else 0


def partitions_of(directory):
    """Return the database address of each partition of a running demo."""
    managers = (
        process for here, process in processes_in(directory) if here == "a" and "manager-1" in process.cmdline()
    )
    return dict(one.split("=", 1) for one in next(managers).environ()["CRAWLCTL_PARTITIONS"].split())
