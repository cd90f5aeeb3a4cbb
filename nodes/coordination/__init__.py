"""
Coordination: who is there, who is main, which work items there are, who does which, and who has one in hand.

One contract (`port`) and two stores that keep it: `database` and `zookeeper`. Both pass the same tests.
"""
