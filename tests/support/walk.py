"""A job that a test takes through its states, with real daemons. All commands go through REST."""

from contextlib import contextmanager

from rest_framework.test import APIClient

from crawlctl.access.roles import ADMINISTRATOR
from jobs.models import Job
from tests.support.api import assert_problem, make_user
from tests.support.processes import wait_for

VERBS = {
    "start",
    "start-minimal",
    "pause",
    "resume",
    "abort",
    "restart",
    "restart-minimal",
    "reset-seeding",
    "delete",
}
RUNS = {"pause", "abort", "restart", "restart-minimal", "reset-seeding"}
RESTS = {"resume", "abort", "restart", "restart-minimal", "reset-seeding"}
POSSIBLE = {
    "INACTIVE": {"start", "start-minimal", "reset-seeding", "delete"},
    "READYFORSTARTUP": {"abort", "restart", "restart-minimal"},
    "READYFORSTARTUPMINIMAL": {"abort", "restart", "restart-minimal"},
    "STARTINGUP": {"abort", "restart", "restart-minimal"},
    "ACTIVE": RUNS,
    "ACTIVE_UNINSTALLED": RUNS,
    "ACTIVESEEDING": RUNS,
    "ACTIVEWAITINGSEEDING": RUNS,
    "ACTIVEWAITSEEDING": RUNS,
    "ACTIVEWAITING": RUNS,
    "ACTIVEWAIT": RUNS,
    "RESUMING": RUNS,
    "PAUSING": RESTS,
    "PAUSED": RESTS,
    "PAUSINGSEEDING": RESTS,
    "PAUSEDSEEDING": RESTS,
    "PAUSINGWAITINGSEEDING": RESTS,
    "PAUSEDWAITSEEDING": RESTS,
    "PAUSINGWAITING": RESTS,
    "PAUSEDWAIT": RESTS,
    "ABORTING": set(),
    "ABORTINGFORRESTART": {"abort"},
    "ABORTINGFORRESTARTMINIMAL": {"abort"},
    "ABORTINGFORRESTARTSEEDING": {"abort"},
    "ABORTINGFORRESTARTSEEDINGMINIMAL": {"abort"},
    "ABORTINGSTARTINGUPFORRESTART": {"abort"},
    "ABORTINGSTARTINGUPFORRESTARTMINIMAL": {"abort"},
    "SHUTTINGDOWN": {"abort", "reset-seeding"},
    "ABORTINGSHUTTINGDOWN": set(),
    "NOTIFYINGOFCOMPLETION": {"abort", "reset-seeding"},
    "READYFORNOTIFY": {"abort", "reset-seeding"},
    "READYFORDELETE": set(),
    "DELETING": set(),
    "DELETING_NOOUTPUT": set(),
    "NOTIFYINGOFDELETION": set(),
}


class Walk:
    """A manager, a worker, and a job from a scripted source (`world`) to a scripted output (`sink`)."""

    def __init__(self, cluster, world, sink):
        self.cluster, self.world, self.sink = cluster, world, sink
        self.client = APIClient()
        self.client.force_login(make_user(ADMINISTRATOR))
        self.managers = cluster.start("runmanager")
        self.workers = cluster.start("runworker")

    def make_job(self, **facts):
        """Make the job. Its only document waits for the signal `go`."""
        self.world.put("a", waits_for="go")
        self.job = self.world.make_job(seeds=["a"], **({"outputs": [self.sink.connection()]} | facts))
        return self.job

    @property
    def address(self):
        return f"/api/v1/jobs/{self.job.pk}/"

    def ask(self, verb, status=200):
        answer = self.client.post(f"{self.address}{verb}/")
        assert answer.status_code == status, answer.content
        return answer.json()

    def look(self):
        return self.client.get(self.address).json()

    def reaches(self, name):
        """Wait for a state, and check that exactly its changes are possible."""
        # The API shows the same, but an answer takes ten times as long.
        wait_for(lambda: Job.objects.get(pk=self.job.pk).manifoldcf_status == name, saying=f"the job is {name}")
        shown = self.look()
        assert set(shown["allowed"]) == POSSIBLE[name]
        for verb in sorted(VERBS - POSSIBLE[name]):
            problem = assert_problem(
                self.client.post(f"{self.address}{verb}/"), 409, "transition_refused", allowed=shown["allowed"]
            )
            assert shown["status"] in problem["detail"]
        assert self.look()["manifoldcf_status"] == name
        return shown

    def is_asked_for(self, times=1):
        wait_for(lambda: self.world.asked("a") >= times, saying="the document is in progress")

    def let_go(self):
        self.world.signal("go")

    def ends(self, as_):
        assert self.cluster.wait_for_end(self.job) == as_

    def is_gone(self):
        wait_for(lambda: not Job.objects.filter(pk=self.job.pk).exists(), saying="the job is gone")

    @contextmanager
    def without_managers(self):
        """Kill all managers within the block, so that a state which only the main manager changes remains."""
        for manager in self.managers:
            manager.kill()
        yield
        self.managers = self.cluster.start("runmanager")

    def kill_everything(self):
        for daemon in (*self.managers, *self.workers):
            daemon.kill()

    def start_everything(self):
        self.managers = self.cluster.start("runmanager")
        self.workers = self.cluster.start("runworker")

    def held(self):
        """Return the names of the documents that the output holds, by its log."""
        last = {url: what for what, url in self.sink.told() if url}
        return {url.rpartition("/")[2] for url, what in last.items() if what == "add"}
