"""The background task that rehearses a change of a job if a request would take too long."""
