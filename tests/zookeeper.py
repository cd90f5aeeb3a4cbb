"""A ZooKeeper that tests have for themselves: Debian's, on loopback, with a data directory and a port of its own."""

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

_JAR = Path("/usr/share/java/zookeeper.jar")
_JAVA = Path("/usr/bin/java")
# Sessions live for two ticks at least.
_TICK = 200


class ZooKeeper:
    """The server; its port stays the same over restarts. What it prints is in `log`."""

    def __init__(self, directory: Path) -> None:
        missing = [str(path) for path in (_JAR, _JAVA) if not path.exists()]
        assert not missing, f"{' and '.join(missing)} missing: install Debian's package zookeeper"
        self._directory = directory
        self._data = directory / "data"
        self.log = directory / "log"
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = listening.getsockname()[1]
        self._data.mkdir(parents=True)
        (directory / "zoo.cfg").write_text(
            f"tickTime={_TICK}\ndataDir={self._data}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\nmaxSessionTimeout=60000\n4lw.commands.whitelist=srvr,mntr\n"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, after whatever end; returns when it answers."""
        command = [
            _JAVA, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=64",
            "-cp", _JAR, "org.apache.zookeeper.server.ZooKeeperServerMain", self._directory / "zoo.cfg",
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while "Mode:" not in self.ask("srvr"):
            assert self._process.poll() is None, f"ZooKeeper ended: {self.log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"ZooKeeper does not answer: {self.log.read_text()[-2000:]}"
            time.sleep(0.02)

    def ask(self, word: str) -> str:
        """What it answers to a word of four letters; nothing where it does not."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as line:
            line.sendall(word.encode())
            return b"".join(iter(lambda: line.recv(65_536), b"")).decode()
        return ""

    def writes(self) -> int:
        """How many transactions it has made since it was started."""
        (zxid,) = (line for line in self.ask("srvr").splitlines() if line.startswith("Zxid"))
        return int(zxid.split()[1], 16)

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it: at once, as a crash would, unless another signal is named."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop it in its tracks; returns when all of its threads stand still."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self._process.pid}/task")
        while any(stat.read_text().rpartition(")")[2].split()[0] != "T" for stat in tasks.glob("*/stat")):
            time.sleep(0.005)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def copy_to(self, backup: Path) -> None:
        """Keep what it has in a backup; it has to be stopped."""
        shutil.copytree(self._data, backup)

    def restore(self, backup: Path | None) -> None:
        """Give it what a backup has, or nothing at all; it has to be stopped."""
        shutil.rmtree(self._data)
        if backup is None:
            self._data.mkdir()
        else:
            shutil.copytree(backup, self._data)
