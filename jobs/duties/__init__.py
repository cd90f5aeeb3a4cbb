"""
Duties: named periodic work, each with one owner.

A loop calls a duty, which makes one step and returns the number of things that it changed. A duty keeps only state that
it can rebuild from the database.
"""
