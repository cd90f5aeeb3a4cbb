"""
Who is to hold which item: strategies, as arithmetic.

Nothing here reads a clock, a file or a database, and nothing depends on the order in which items or
holders are handed in: ties are broken by id. So everybody who sees the same comes to the same plan.
"""
