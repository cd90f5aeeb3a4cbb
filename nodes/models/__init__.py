"""Nodes, their main and their journal."""

from nodes.models.event import NodeEvent
from nodes.models.node import Node
from nodes.models.settings import SettingsVersion
from nodes.models.term import MainTerm

__all__ = ["MainTerm", "Node", "NodeEvent", "SettingsVersion"]
