"""The settings of crawlctl: their table (`table`), and the effective values of this process (`running`)."""
