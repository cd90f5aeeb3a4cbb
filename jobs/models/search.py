"""The search index in PostgreSQL: written in the flush, made searchable later."""

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Q


class SearchDocument(models.Model):
    """
    The text of one document of one output.

    `vector` is null until a worker has computed it. The lag of the search index is the age of the oldest such row.
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
    fetched_at = models.DateTimeField()
    written_at = models.DateTimeField()
    vector = SearchVectorField(null=True)

    class Meta:
        indexes = (
            GinIndex(fields=["vector"], name="search_vector"),
            models.Index(fields=["written_at"], name="search_behind", condition=Q(vector__isnull=True)),
        )
