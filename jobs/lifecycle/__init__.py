"""What a job and a document may become, as data: no I/O, no Django."""
