"""
Explanations: the gates between an address and an output, in order, for one address.

The gates are the conditions that the crawl itself applies. The rules of connectors judge scope and robots.txt as a
worker does. The verdict on a document decides which of the gates of scheduling is closed (`jobs.verdicts`). This
package only reads.
"""
