"""
Reports: what was done (the history), and where documents stand (status).

Whoever asks writes regular expressions, PostgreSQL's, and chooses stretches of time: so each report is
asked under a timeout, and a pattern that is none is refused before anything is read.
"""
