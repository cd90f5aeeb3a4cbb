"""
Coordination: the members of a cluster, its main node, its work items, their assignment, and their locks.

One contract (`port`) and two stores that implement it: `database` and `zookeeper`. Both pass the same tests.
"""
