"""
Rehearsals: the effects of a change of a job or of a throttle policy, before it is stored.

A rehearsal of a job shows the effects of its next full run under other rules, compared with its present documents.
Workers judge by the same code. A document stays if the rules admit it, and a path of links from a seed leads to it over
documents that stay.
"""
