"""
Figures that a process counts about itself, for monitoring (Prometheus).

A *metric* is declared once, with its name, its labels and its meaning, next to the other metrics of its subject. It is
counted where the event happens. Counting is arithmetic under a lock, without I/O and without a connection, and is
always enabled. Only `prometheus` knows the Prometheus library. It turns metrics into the scraped text.

Figures belong to their process: a node is a process, and so is a web server. Labels have few values, known beforehand.
A quantity with as many values as a crawl has hosts or addresses belongs in a report, not in a label.
"""
