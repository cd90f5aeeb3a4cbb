"""
Verification of outputs (and of archives, in `archives/`): the documents of an output are compared with the record of
the crawl, and repaired.

`comparison.py` compares, `reading.py` reads the output and the record in buckets of the hash, `finding.py` stores
differences, and `repairing.py` reads documents again or removes them. `attempts.py` has the fence of both kinds, and
`verbs.py` has the operations of operators.
"""
