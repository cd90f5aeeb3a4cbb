"""Below which numbers nothing is in work any more."""

from django.db import models


class Floor(models.Model):
    """
    No batch below `batch` is available or sent, no turn below `turn` is open, no delta below `delta` is there, and none
    ever will be. The newest row counts.

    `next_batch` and so on were the last numbers drawn when the row was written, by the transaction `next_since`: once
    all that were at work then are over, nothing new can come up to there.
    """

    batch = models.BigIntegerField()
    turn = models.BigIntegerField()
    delta = models.BigIntegerField()
    next_batch = models.BigIntegerField()
    next_turn = models.BigIntegerField()
    next_delta = models.BigIntegerField()
    next_since = models.BigIntegerField()
