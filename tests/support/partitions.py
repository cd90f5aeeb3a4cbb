"""Partitions without a second database: their facts are stored as logical replication brings them."""

from jobs.duties.partitioned_following import follow_runs
from jobs.duties.partitioned_runs import lead_runs, send_jobs
from jobs.models import Job, PartitionedJob
from jobs.partitions import configuration
from jobs.partitions.facts import send_fact, sent_fact
from jobs.partitions.slots import KEY, SlotMap
from jobs.partitions.this_partition import following
from jobs.settings.partitions import PARTITION, PARTITIONS
from tests.support.factories import make_job, make_running_job

ADDRESSES = ("a=postgresql://one/crawl", "b=postgresql://two/crawl")
WANTED = {
    "run_no": 1,
    "minimal": False,
    "from_the_beginning": True,
    "is_running": True,
    "is_paused": False,
    "is_stopped": False,
    "may_finish": False,
    "ends_at_limit": False,
    "share": None,
    "guard": "no",
    "removals": "",
    "round": 0,
}


def be_partition(settings, name):
    """Make this database a partition."""
    values = {PARTITION.path: name, PARTITIONS.path: ADDRESSES}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}


def receive_fact(connection, source, target, key, body):
    """Store a fact as logical replication brings it."""
    send_fact(connection, source, target, key, body)


class Follower:
    """Partition `b`, with the facts of job 7 that the control partition `a` sends it."""

    def __init__(self, connection, main):
        self.connection, self.main = connection, main
        send_fact(connection, "b", "b", KEY, SlotMap.even("ab").as_json())

    def receive_job(self, job):
        receive_fact(self.connection, "a", "b", "job:7", {"definitions": configuration.read(job.pk)})

    def stores_job(self):
        with following():
            return make_job("news")

    def knows(self, **facts):
        """
        Make the job in this partition, with these facts of its state, as if the partition had already received it.
        """
        with following():
            running = make_running_job(self.main.node, **facts)
        PartitionedJob.objects.create(job=running.job, number=7)
        return running

    def follows(self, **wanted):
        receive_fact(self.connection, "a", "b", "run:7", WANTED | wanted)
        self.main.step(follow_runs)
        return Job.objects.get()

    def report(self):
        return sent_fact(self.connection, "b", "a", "run:7")


class Leader:
    """The control partition `a`, in run 1 of a job, with the reports of partition `b`."""

    def __init__(self, connection, main):
        self.connection, self.main = connection, main
        self.running = make_running_job(main.node)
        self.number = self.running.job.pk
        PartitionedJob.objects.create(job=self.running.job, number=self.number)

    def receive(self, **report):
        usual = {
            "run_no": 1,
            "phase": "active",
            "pause": "no",
            "run_end": "",
            "reason": "",
            "round": self.wants["round"],
        }
        figures = {"figures": {"quiet": True, "sent": {}, "applied": {}}}
        receive_fact(self.connection, "b", "a", f"run:{self.number}", usual | figures | report)

    def leads(self):
        self.main.step(send_jobs, lead_runs)
        return PartitionedJob.objects.get()

    @property
    def wants(self):
        return sent_fact(self.connection, "a", "b", f"run:{self.number}")
