"""
Live pages: one web socket for each open page, one reader of screens for each web process.

A page says which topic it shows. The process's bridge (`bridge`) reads each topic that somebody sees,
once for all who see it, at most once in 1.6 s, and tells the sockets (`consumers`) that there is a newer
screen. A socket that is slow skips screens: it sends the newest there is. Sockets and bridge are of one process and one
event loop, so nothing stands between them: by channels' layer a screen cost each page three times as much.
"""
