"""Who is main, and since which term."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from nodes.models.node import Node


class MainTerm(models.Model):
    """
    The one row of a scope that says who is main.

    `term` only grows (a trigger holds it), so a main that was replaced can be told by its number for
    ever. The table must stay logged: an unlogged one is empty after a crash and would begin anew at 1.
    """

    scope = models.TextField(primary_key=True)
    main = models.ForeignKey(Node, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    term = models.BigIntegerField(default=0, db_default=0)
    since = models.DateTimeField(_("when the main took office or left it"))
    resigned = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering = ("scope",)

    def __str__(self) -> str:
        return f"{self.scope}, term {self.term}"
