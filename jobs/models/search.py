"""The search index in PostgreSQL: written in the flush, made searchable later."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Q


class SearchDocument(models.Model):
    """
    The text of one document of one output.

    `vector` is null until a worker has computed it. The lag of the search index is the age of the oldest such row.
    `access` is the digest of its access (`SearchAccess`), and null if all users may see it.
    """

    pk = models.CompositePrimaryKey("output_id", "hash")
    output = models.ForeignKey("jobs.OutputConnection", on_delete=models.CASCADE, db_index=False, related_name="+")
    hash = models.UUIDField()
    url = models.TextField()
    title = models.TextField()
    description = models.TextField()
    text = models.TextField()
    content_type = models.CharField(max_length=100)
    language = models.CharField(max_length=35)
    # Values by name, or null without any.
    metadata = models.JSONField(null=True)
    fetched_at = models.DateTimeField()
    access = models.UUIDField(null=True)
    written_at = models.DateTimeField()
    vector = SearchVectorField(null=True)

    class Meta:
        permissions = (("search_as_user", "Can search with the access of another user"),)
        indexes = (
            GinIndex(fields=["vector"], name="search_vector"),
            models.Index(fields=["access"], name="search_access"),
            models.Index(fields=["written_at"], name="search_behind", condition=Q(vector__isnull=True)),
        )


class SearchAccess(models.Model):
    """
    One protected level of an access that documents have. Many documents share few accesses.

    An access has `of` levels. A row never changes. It stays after its last document has left, because tombstones may
    refer to it.
    """

    pk = models.CompositePrimaryKey("digest", "place")
    digest = models.UUIDField()
    place = models.SmallIntegerField()
    of = models.SmallIntegerField()
    level = models.CharField(max_length=10)
    allow = ArrayField(models.TextField())
    deny = ArrayField(models.TextField())

    class Meta:
        indexes = (GinIndex(fields=["allow"], name="search_access_allow"),)
