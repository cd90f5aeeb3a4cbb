"""
Duties: named pieces of periodic work, each with one owner. A duty is stepped by a loop, keeps no state
that it could not rebuild from the database, and returns how much it moved.
"""
