"""
Reports: the activities (history) and the states of documents (status).

Users choose spans of time and write regular expressions of PostgreSQL. So each report has a timeout, and an invalid
pattern is refused before anything is read.
"""
