"""
Duties: named periodic work, each with one owner.

A loop steps a duty. A duty keeps no state that it could not rebuild from the database, and returns how much it moved.
"""
