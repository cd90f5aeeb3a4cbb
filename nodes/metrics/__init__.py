"""
What a process counts of itself, for who watches it from outside (Prometheus).

A *figure* is declared once, with its name, its labels and its meaning, beside others of its kind, and counted
where the thing happens. Counting is arithmetic under a lock: no I/O, nothing to connect, nothing to switch on.
`prometheus` turns figures into what is scraped, and nobody else knows its library.

Figures belong to their process: a node is a process, and so is who serves the pages. Labels have few values,
known beforehand. What has as many values as a crawl has hosts or addresses is for reports, not for a label.
"""
