"""The settings of crawlctl: what there is to be set (`table`), and what this process runs with (`running`)."""
