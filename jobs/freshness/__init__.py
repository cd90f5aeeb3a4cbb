"""
Freshness goals: estimates of change rates, and the choice of looks that give the most freshness. Arithmetic; no I/O.

A goal says that a share of the documents must be *fresh within* a time T. A document is fresh within T as long as no
change that is older than T is unseen. `rates` estimates change rates, `looks` gives the best interval at a price, and
`plans` finds the prices of a host.
"""
