"""A ZooKeeper that tests have for themselves: Debian's, on loopback, with a data directory and a port of its own."""

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.freezing import freeze
from tests.lifetimes import ENDS_WITH_PYTEST

_JAR = Path("/usr/share/java/zookeeper.jar")
_JAVA = Path("/usr/bin/java")
# Sessions live for two ticks at least.
_TICK = 200


class ZooKeeper:
    """The server; its port stays the same over restarts. What it prints is in `log`."""

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
        """Start it, after whatever end; returns when it answers."""
        self.launch()
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise

    def launch(self) -> None:
        """Start it, and do not wait."""
        command = [
            *ENDS_WITH_PYTEST, _JAVA, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=64",
            "-cp", _JAR, "org.apache.zookeeper.server.quorum.QuorumPeerMain", self._directory / "zoo.cfg",
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)

    def wait(self) -> None:
        """Return when it answers."""
        assert self._process is not None
        deadline = time.monotonic() + 60
        while not self.answers:
            assert self._process.poll() is None, f"ZooKeeper ended: {self.log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"ZooKeeper does not answer: {self.log.read_text()[-2000:]}"
            time.sleep(0.02)

    @property
    def answers(self) -> bool:
        """Whether it serves."""
        return "Mode:" in self.ask("srvr")

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
        freeze(self._process.pid)

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


class Ensemble:
    """Three of them, of which one leads."""

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
    """One of an ensemble."""

    def __init__(self, directory: Path, number: int, port: int, peers: str) -> None:
        self.port = port
        self._prepare(directory, further=f"initLimit=20\nsyncLimit=10\n{peers}")
        (self._data / "myid").write_text(f"{number}\n")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _port in range(count)]
        return [one.getsockname()[1] for one in listening]
