"""Nodes, their main, their journal, and what is wished of them."""

from nodes.models.event import NodeEvent
from nodes.models.node import Node
from nodes.models.request import ClusterRequest
from nodes.models.settings import SettingsVersion
from nodes.models.term import MainTerm

__all__ = ["ClusterRequest", "MainTerm", "Node", "NodeEvent", "SettingsVersion"]
