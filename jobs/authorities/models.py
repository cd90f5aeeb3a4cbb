"""The tables of authorities: groups, connections to authorities and mappers, tokens of services."""

import uuid
from typing import Final

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

# Defaults: the time limit of a question (seconds), and the number of questions that a connection may get at the same
# time.
SECONDS: Final = 5
AT_ONCE: Final = 4
LONGEST_ERROR: Final = 300


class AuthorityGroup(models.Model):
    """
    A group of authorities whose tokens belong together. A repository names a group, and its documents have tokens of
    this group.

    Tokens of different groups may have the same name, and then mean different things.
    """

    name = models.CharField(max_length=200, unique=True)

    class Meta:
        ordering = ("name",)
        permissions = (("ask_authority", "Can ask what other users may see"),)

    def __str__(self) -> str:
        return self.name


class _Connection(models.Model):
    """The common part of both kinds of connections. Secrets of a configuration are sealed."""

    name = models.CharField(max_length=200, unique=True)
    kind = models.SlugField(max_length=50)
    configuration = models.JSONField(default=dict, blank=True)
    time_limit = models.PositiveSmallIntegerField(
        _("time limit of a question (seconds)"),
        default=SECONDS,
        db_default=SECONDS,
        validators=[MinValueValidator(1), MaxValueValidator(120)],
    )
    at_once = models.PositiveSmallIntegerField(
        _("questions at once"),
        default=AT_ONCE,
        db_default=AT_ONCE,
        validators=[MinValueValidator(1), MaxValueValidator(100)],
    )
    # Time since which the connection has answered no question; null if it answered its last question.
    silent_since = models.DateTimeField(null=True, blank=True, editable=False)
    last_error = models.CharField(max_length=LONGEST_ERROR, default="", db_default="", blank=True, editable=False)

    class Meta:
        abstract = True
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class MappingConnection(_Connection):
    """
    A connection to a mapper, which turns the name of a user into the name in another system.

    The mapper gets the name that its `prerequisite` returned; without a prerequisite, the name of the user.
    """

    prerequisite = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="followers")

    class Meta(_Connection.Meta):
        abstract = False
        indexes = (models.Index(fields=["id"], name="mapping_is_silent", condition=Q(silent_since__isnull=False)),)


class AuthorityConnection(_Connection):
    """A connection to an authority. It is asked about users of its domain only."""

    group = models.ForeignKey(AuthorityGroup, on_delete=models.PROTECT, related_name="authorities")
    prerequisite = models.ForeignKey(
        MappingConnection, null=True, blank=True, on_delete=models.PROTECT, related_name="authorities"
    )
    domain = models.CharField(max_length=200, default="", db_default="", blank=True)

    class Meta(_Connection.Meta):
        abstract = False
        indexes = (models.Index(fields=["id"], name="authority_is_silent", condition=Q(silent_since__isnull=False)),)


class ServiceToken(models.Model):
    """A token with which a service, such as a search application, may ask. Only a digest of it is stored."""

    name = models.CharField(max_length=200, unique=True)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=200)
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("name",)
        default_permissions = ("add", "delete", "view")

    def __str__(self) -> str:
        return self.name


class Generation(models.Model):
    """
    The mark of the last change to any of these tables, in one row. A process compares the mark with the mark that it
    read last, to notice a change.

    The mark is random, so even after a restore of the database, different content never has an equal mark.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    mark = models.UUIDField(default=uuid.uuid4)

    class Meta:
        default_permissions = ()
        constraints = (models.CheckConstraint(condition=Q(id=1), name="one_row_of_the_generation"),)

    def __str__(self) -> str:
        return str(self.mark)
