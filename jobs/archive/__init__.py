"""
Archives of raw exchanges: their records, the formats WARC and BARC, and the files of one machine. This package uses no
database.
"""
