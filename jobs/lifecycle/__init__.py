"""The lifecycles of jobs and documents, as data: no I/O, no Django."""
