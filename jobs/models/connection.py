"""Connections: the configuration of a connector, stored once and used by many jobs."""

from django.contrib.postgres.indexes import GinIndex
from django.db import models

from nodes.models.word_search import Words


class RepositoryConnection(models.Model):
    """
    A source: its connector and its configuration, which the connector checks.

    The history before `clear_history_before` is being deleted; null if that was not requested.
    """

    name = models.CharField(max_length=200, unique=True)
    connector = models.SlugField(max_length=50, default="web")
    configuration = models.JSONField(default=dict, blank=True)
    # True if pages or the API stored the source. Then it may only read below CRAWLCTL_FILE_ROOTS.
    is_confined = models.BooleanField(default=False, db_default=False, editable=False)
    clear_history_before = models.DateTimeField(null=True, blank=True, editable=False)
    # Authority group of the access tokens of its documents.
    authority_group = models.ForeignKey(
        "authorities.AuthorityGroup", null=True, blank=True, on_delete=models.PROTECT, related_name="repositories"
    )

    class Meta:
        ordering = ("name",)
        indexes = (
            models.Index(
                fields=["id"], name="source_clears_history", condition=models.Q(clear_history_before__isnull=False)
            ),
            GinIndex(Words("name"), name="source_words"),
        )

    def __str__(self) -> str:
        return self.name


class OutputConnection(models.Model):
    """
    A destination of documents: its connector and its configuration, which the connector checks.

    Documents written before `trusted_from` are written again at their next fetch. Documents written before
    `clear_before` are being removed. Both are null if that was not requested.
    """

    name = models.CharField(max_length=400, unique=True)
    connector = models.SlugField(max_length=50)
    configuration = models.JSONField(default=dict, blank=True)
    # True if pages or the API stored the output. Then it may only write below CRAWLCTL_OUTPUT_ROOT.
    is_confined = models.BooleanField(default=False, db_default=False, editable=False)
    trusted_from = models.DateTimeField(null=True, blank=True, editable=False)
    clear_before = models.DateTimeField(null=True, blank=True, editable=False)
    # After a job stopped using the output, documents that no job keeps there are searched. This is the position of the
    # search; null: no search.
    orphans_after = models.UUIDField(null=True, blank=True, editable=False)
    # The reason why the last attempt to clear the output failed, as text.
    clearing_refused = models.TextField(blank=True, editable=False)

    class Meta:
        ordering = ("name",)
        indexes = (
            models.Index(fields=["id"], name="output_is_cleared", condition=models.Q(clear_before__isnull=False)),
            models.Index(fields=["id"], name="output_is_searched", condition=models.Q(orphans_after__isnull=False)),
            GinIndex(Words("name"), name="output_words"),
        )

    def __str__(self) -> str:
        return self.name
