"""
Rehearsals: the effects of a change of a job or of a throttle policy, before it is stored.

A rehearsal of a job tells what its next full run does under other rules, compared with the documents that the job has
now. Workers judge by the same code. A document stays if the rules admit it, and links of other documents that
stay lead to it from a seed.
"""
