"""Low-water marks: scans of active work start at these numbers."""

from django.db import models


class LowWaterMark(models.Model):
    """
    No batch below `batch` is available or sent, no turn below `turn` is open, and no delta below `delta` exists; this
    cannot change any more. The newest row applies.

    The `next_…` numbers were the last drawn ones when the transaction `next_since` wrote the row. Once all transactions
    that were running then have ended, no new row can have a number up to these.
    """

    batch = models.BigIntegerField()
    turn = models.BigIntegerField()
    delta = models.BigIntegerField()
    next_batch = models.BigIntegerField()
    next_turn = models.BigIntegerField()
    next_delta = models.BigIntegerField()
    next_since = models.BigIntegerField()
