"""
Exports: documents, history and reports as files of any length, written by background tasks.

No crawl waits for an export. The row of an export has the cursor and the names of its parts, so another attempt
continues after the last part.
"""
