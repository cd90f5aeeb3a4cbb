"""Two simultaneous transactions, one of which waits for the other."""

from concurrent.futures import ThreadPoolExecutor

from tests.support.waiting import wait_until


class Rival:
    """A call in another thread that waits for a lock of `connection`."""

    def __init__(self, watcher, connection):
        self._watcher, self._holder = watcher, connection.info.backend_pid
        self._pool = ThreadPoolExecutor(1)
        self._future = None

    def start_and_wait(self, call, *arguments, **facts):
        """Start the call, and return once it waits for the lock."""
        self._future = self._pool.submit(call, *arguments, **facts)
        wait_until(lambda: self._is_blocked() or self._future.done())
        assert not self._future.done(), f"it did not wait: {self._future}"

    def result(self):
        return self._future.result(10)

    def end(self):
        self._pool.shutdown()

    def _is_blocked(self):
        query = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid)))"
        return self._watcher.execute(query, [self._holder]).fetchone()[0]
