"""
Verification of archives: the copies of each file are compared with the row of the file, and the records in a copy with
the rows of the records.

`inspection.py` reads copies, `repairing.py` writes copies again, `checking.py` compares one file with its rows and
repairs it, and `foreign_files.py` finds files without a row. `verbs.py` has the operations of operators.
"""
