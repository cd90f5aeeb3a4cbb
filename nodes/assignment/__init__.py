"""
Strategies that decide which holder gets which item.

No function here reads a clock, a file or a database, and no result depends on the order in which items or holders are
given: ties are broken by id. So all processes with the same facts compute the same plan.
"""
