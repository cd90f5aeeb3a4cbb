"""Nodes, main managers, the journal, requests to the cluster, and the tables of coordination."""

from nodes.models.coordination import CoordinationCluster, CoordinationMember, ItemLock, WorkPool, WorkShare
from nodes.models.event import NodeEvent
from nodes.models.kept_answer import KeptAnswer
from nodes.models.node import Node
from nodes.models.request import ClusterRequest
from nodes.models.restore import DatabaseIncarnation, DatabaseRestore
from nodes.models.settings import SettingsVersion
from nodes.models.term import MainTerm

__all__ = [
    "ClusterRequest",
    "CoordinationCluster",
    "CoordinationMember",
    "DatabaseIncarnation",
    "DatabaseRestore",
    "ItemLock",
    "KeptAnswer",
    "MainTerm",
    "Node",
    "NodeEvent",
    "SettingsVersion",
    "WorkPool",
    "WorkShare",
]
