"""What the crawl counts (`crawl`), what the whole cluster looks like (`cluster`), all of it (`table`) and its page (`manual`)."""
