"""The background task that rehearses a change of a job, if that takes long."""
