"""A private ZooKeeper for tests: Debian's, on loopback, with its own data directory and port."""

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.support.freezing import freeze
from tests.support.lifetimes import ENDS_WITH_PYTEST

_JAR = Path("/usr/share/java/zookeeper.jar")
_JAVA = Path("/usr/bin/java")
# Length of a tick (milliseconds). Sessions live for at least two ticks.
_TICK = 200


class ZooKeeper:
    """The server. Its port stays the same over restarts, and its output is in `log`."""

    def __init__(self, directory: Path) -> None:
        (self.port,) = _free_ports(1)
        self._prepare(directory)
        self.start()

    def _prepare(self, directory: Path, *, further: str = "") -> None:
        missing = [str(path) for path in (_JAR, _JAVA) if not path.exists()]
        assert not missing, f"{' and '.join(missing)} missing: install Debian's package zookeeper"
        self._directory = directory
        self._data = directory / "data"
        self._data.mkdir(parents=True)
        self.log = directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "zoo.cfg").write_text(
            f"tickTime={_TICK}\ndataDir={self._data}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\nmaxSessionTimeout=60000\n4lw.commands.whitelist=srvr,mntr\n"
            f"{further}"
        )

    def start(self) -> None:
        """Start the server, however it ended before, and return when it answers."""
        self.launch()
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise

    def launch(self) -> None:
        """Start the server without waiting for it."""
        command = [
            *ENDS_WITH_PYTEST, _JAVA, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=64",
            "-cp", _JAR, "org.apache.zookeeper.server.quorum.QuorumPeerMain", self._directory / "zoo.cfg",
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)

    def wait(self) -> None:
        """Wait until the server answers."""
        assert self._process is not None
        deadline = time.monotonic() + 60
        while not self.answers:
            assert self._process.poll() is None, f"ZooKeeper ended: {self.log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"ZooKeeper does not answer: {self.log.read_text()[-2000:]}"
            time.sleep(0.02)

    @property
    def answers(self) -> bool:
        """True if the server answers requests."""
        return "Mode:" in self.ask("srvr")

    def ask(self, word: str) -> str:
        """Return the answer to a four-letter word, or an empty text."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as line:
            line.sendall(word.encode())
            return b"".join(iter(lambda: line.recv(65_536), b"")).decode()
        return ""

    def writes(self) -> int:
        """Return the number of transactions since the start of the server."""
        (zxid,) = (line for line in self.ask("srvr").splitlines() if line.startswith("Zxid"))
        return int(zxid.split()[1], 16)

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the server: as in a crash, unless another signal is given."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Freeze the server, and return when all of its threads stand still."""
        assert self._process is not None
        freeze(self._process.pid)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def copy_to(self, backup: Path) -> None:
        """Copy the data of the stopped server to a backup."""
        shutil.copytree(self._data, backup)

    def restore(self, backup: Path | None) -> None:
        """Replace the data of the stopped server by a backup, or remove it."""
        shutil.rmtree(self._data)
        if backup is None:
            self._data.mkdir()
        else:
            shutil.copytree(backup, self._data)


class Ensemble:
    """Three servers, one of which leads."""

    def __init__(self, directory: Path) -> None:
        ports = _free_ports(9)
        numbered = list(enumerate(zip(*[iter(ports)] * 3, strict=True), start=1))
        peers = "".join(f"server.{number}=127.0.0.1:{peer}:{vote}\n" for number, (_client, peer, vote) in numbered)
        self.servers = [_Member(directory / str(number), number, client, peers) for number, (client, *_) in numbered]
        try:
            for server in self.servers:
                server.launch()
            for server in self.servers:
                server.wait()
        except BaseException:
            self.stop()
            raise

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    @property
    def leader(self) -> ZooKeeper:
        (leading,) = (server for server in self.servers if "Mode: leader" in server.ask("srvr"))
        return leading

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


class _Member(ZooKeeper):
    """A server of an ensemble."""

    def __init__(self, directory: Path, number: int, port: int, peers: str) -> None:
        self.port = port
        self._prepare(directory, further=f"initLimit=20\nsyncLimit=10\n{peers}")
        (self._data / "myid").write_text(f"{number}\n")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _port in range(count)]
        return [one.getsockname()[1] for one in listening]
