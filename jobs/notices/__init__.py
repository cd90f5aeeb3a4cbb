"""
Notices: messages to people and programs about conditions and events, through channels such as e-mail.

The attention list decides what is a condition (`jobs.attention`); journals have the events. The main manager inserts a
task that compares them with the rules (`checking.py`), and each message is a separate task (`sending.py`). No crawl
waits for either of them.
"""
