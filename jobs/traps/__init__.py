"""
Trap radar: addresses as templates, the share of new content of each template, and the templates that look like traps.

Arithmetic: no I/O, and no crawl.
"""
