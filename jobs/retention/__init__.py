"""Retention as background tasks: a kind, a built-in template, and the view of each subject of `jobs.duties.retention_subjects`."""
