"""The main manager of each scope, and its term."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from nodes.models.node import Node


class MainTerm(models.Model):
    """
    The one row of a scope that names its main manager.

    `term` only grows (a trigger enforces it), so a replaced main manager can always be recognized by its number. The
    table must stay logged: an unlogged one is empty after a crash and would start again at 1.
    """

    scope = models.TextField(primary_key=True)
    main = models.ForeignKey(Node, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    term = models.BigIntegerField(default=0, db_default=0)
    since = models.DateTimeField(_("start or end of the main's term"))
    resigned = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering = ("scope",)

    def __str__(self) -> str:
        return f"{self.scope}, term {self.term}"
