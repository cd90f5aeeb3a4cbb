"""
Verification of archives: the copies of each file are compared with its row, and the records with theirs.

`looking.py` reads copies, `repairing.py` writes copies again, `checking.py` compares one file with its rows and repairs it,
and `foreign_files.py` finds files without a row. `verbs.py` has the operations of operators.
"""
