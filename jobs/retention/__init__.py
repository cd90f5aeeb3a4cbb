"""
Retention as background tasks: their kind, a built-in template, and the page, API and command that show each subject of
`jobs.duties.retention_subjects`.
"""
