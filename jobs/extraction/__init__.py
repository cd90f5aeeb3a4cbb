"""
Texts of files: PDF, Office, OpenDocument, e-mail, archives, plain text; each with title, metadata, language and parts.

A source may be hostile, and the libraries that read files are large. So a child process of the worker reads each file
(`pool.py`). The child has limits of computing time, time and memory. It opens no file and no connection, and does not
have the worker's environment (`confinement.py`). If a file ends the child, or needs too much time or memory, its
extraction fails with a reason, and the next file gets another child.

A child executes `extract.py`, which finds the type by the content and calls a reader of `formats/`. All readers of a
file share one `Budget`, which limits everything that they unpack.
"""
