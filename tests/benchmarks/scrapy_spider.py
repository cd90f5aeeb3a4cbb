"""
Scrapy's side of the benchmark: every page reachable from one address, with a queue on disk.

The Python of the benchmark's own environment starts it. That environment has Scrapy and nothing of ours:
`.venv-bench/bin/python tests/benchmarks/scrapy_spider.py START_URL JOB_DIRECTORY CONNECTIONS`.
"""

import sys

import scrapy
from scrapy.crawler import CrawlerProcess


class EveryPage(scrapy.Spider):
    name = "every page"

    async def start(self):
        # The duplicate filter applies to the start, too: a page that links back to it must not fetch it twice.
        yield scrapy.Request(self.start_url)

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


def crawl(start_url, job_directory, connections):
    # Features that cost time and are not needed here are off, so that Scrapy looks no slower than it is.
    process = CrawlerProcess(
        {
            "JOBDIR": job_directory,
            "CONCURRENT_REQUESTS": connections,
            "CONCURRENT_REQUESTS_PER_DOMAIN": connections,
            "DOWNLOAD_DELAY": 0,
            "AUTOTHROTTLE_ENABLED": False,
            "ROBOTSTXT_OBEY": False,
            "COOKIES_ENABLED": False,
            "RETRY_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "INFO",
        }
    )
    process.crawl(EveryPage, start_url=start_url)
    process.start()


if __name__ == "__main__":
    crawl(sys.argv[1], sys.argv[2], int(sys.argv[3]))
