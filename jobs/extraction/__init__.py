"""
Texts of files: PDF, Office, OpenDocument, e-mail, archives, plain text; each with title, metadata, language and parts.

A file comes from a source that may be hostile, and the libraries that read files are large. So a file is read in a
child process of the worker (`pool.py`). The child has a limit of computing time, of time and of memory, opens no file
and no connection, and has none of the worker's environment (`confinement.py`). A file that kills, hangs or bloats the
child fails with a plain reason. The next file gets another child.

A child executes `extract.py`, which finds the type by the content and calls a reader of `formats/`. All readers
share one `Budget`, so that nothing unpacks without a limit.
"""
