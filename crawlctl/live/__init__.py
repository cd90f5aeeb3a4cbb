"""
Live pages: one web socket for each open page, one reader of screens for each web process.

A page names the topic that it shows. The process's bridge (`bridge`) reads each watched topic once for all its
watchers, at most once in 1.6 s, and notifies the sockets (`consumers`) of a newer screen. A slow socket skips screens:
it sends only the newest. Sockets and bridge are in one process and one event loop, so they exchange messages directly:
through the layer of channels, a screen cost three times as much for each page.
"""
