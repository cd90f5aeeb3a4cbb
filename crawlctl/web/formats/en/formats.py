"""Forms as Django names them. Moments are UTC, to the second, as on our other pages."""

DATETIME_FORMAT = "Y-m-d H:i:s"
