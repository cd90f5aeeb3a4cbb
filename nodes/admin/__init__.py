"""The parts of every list of the set-up: a bounded cost, rows that the system owns, and a question before a change."""
