"""The tables of the crawl, one module for each noun."""

from jobs.models.activity import Activity
from jobs.models.address import AddressBlock, NewAddress
from jobs.models.archive import ArchiveFile, ArchiveRecord, FailingStore, FileState
from jobs.models.batch import Batch, Turn
from jobs.models.bin import Bin, BinHour, BinLimit, BinState, Lane, LaneState, PastRobots, Robots
from jobs.models.carrying import CarryDown
from jobs.models.chain import ChainedStart, JobChain
from jobs.models.connection import OutputConnection, RepositoryConnection
from jobs.models.counter import Counter, CounterDelta, JobCounter
from jobs.models.denial import DenialReason
from jobs.models.document import IndexedDocument, Outcome, OutLinks, PipelineRefusal, QueueItem
from jobs.models.document_version import DocumentVersion
from jobs.models.evidence import EvidenceBlock, EvidenceChain, EvidenceRecorder, EvidenceReport
from jobs.models.failure import FailureGroup, FailureHour
from jobs.models.freshness import ChangeRate, GoalTotal, LanePlan
from jobs.models.gate import Gate, GatedDocument
from jobs.models.group import ThrottleGroup
from jobs.models.hops import HopCount, Link
from jobs.models.invariant import InvariantCheck
from jobs.models.job import Budget, Job, Seed
from jobs.models.journal import JobEvent
from jobs.models.lost_lines import LostLines
from jobs.models.low_water_mark import LowWaterMark
from jobs.models.minute import ClusterMinute
from jobs.models.notification import Notification
from jobs.models.partition import (
    AppliedReferences,
    ForeignLink,
    ForeignReference,
    PartitionedJob,
    PartitionFact,
    PolicyShare,
    RedirectEdge,
)
from jobs.models.policy import ThrottlePolicy, ThrottleRule
from jobs.models.progress import Charge, Progress
from jobs.models.redirect import SeedRedirect
from jobs.models.rejected import RejectedAddress
from jobs.models.removals import DeletedJob, RemovalQuestion, Restoration
from jobs.models.run import Run, RunDifference, RunSample
from jobs.models.schedule import ScheduleWindow
from jobs.models.search import SearchAccess, SearchDocument
from jobs.models.session import Session
from jobs.models.trap import RuleKind, RuleState, TrapDecision, TrapSuspect
from jobs.models.verification import (
    ArchiveFault,
    ArchiveVerification,
    Fault,
    OutputFault,
    OutputVerification,
    Verification,
)
from jobs.models.version import DefinitionVersion
from jobs.models.webmaster import WebmasterLimit

__all__ = [
    "Activity",
    "AddressBlock",
    "AppliedReferences",
    "ArchiveFault",
    "ArchiveFile",
    "ArchiveRecord",
    "ArchiveVerification",
    "Batch",
    "Bin",
    "BinHour",
    "BinLimit",
    "BinState",
    "Budget",
    "CarryDown",
    "ChainedStart",
    "ChangeRate",
    "Charge",
    "ClusterMinute",
    "Counter",
    "CounterDelta",
    "DefinitionVersion",
    "DeletedJob",
    "DenialReason",
    "DocumentVersion",
    "EvidenceBlock",
    "EvidenceChain",
    "EvidenceRecorder",
    "EvidenceReport",
    "FailingStore",
    "FailureGroup",
    "FailureHour",
    "Fault",
    "FileState",
    "ForeignLink",
    "ForeignReference",
    "Gate",
    "GatedDocument",
    "GoalTotal",
    "HopCount",
    "IndexedDocument",
    "InvariantCheck",
    "Job",
    "JobChain",
    "JobCounter",
    "JobEvent",
    "Lane",
    "LanePlan",
    "LaneState",
    "Link",
    "LostLines",
    "LowWaterMark",
    "NewAddress",
    "Notification",
    "OutLinks",
    "Outcome",
    "OutputConnection",
    "OutputFault",
    "OutputVerification",
    "PartitionFact",
    "PartitionedJob",
    "PastRobots",
    "PipelineRefusal",
    "PolicyShare",
    "Progress",
    "QueueItem",
    "RedirectEdge",
    "RejectedAddress",
    "RemovalQuestion",
    "RepositoryConnection",
    "Restoration",
    "Robots",
    "RuleKind",
    "RuleState",
    "Run",
    "RunDifference",
    "RunSample",
    "ScheduleWindow",
    "SearchAccess",
    "SearchDocument",
    "Seed",
    "SeedRedirect",
    "Session",
    "ThrottleGroup",
    "ThrottlePolicy",
    "ThrottleRule",
    "TrapDecision",
    "TrapSuspect",
    "Turn",
    "Verification",
    "WebmasterLimit",
]
