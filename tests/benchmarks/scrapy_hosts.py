"""
Scrapy's side of the benchmark of many hosts: all pages of the hosts whose addresses a file lists, one a line.

The Python of the benchmark's own environment starts it: `.venv-bench/bin/python tests/benchmarks/scrapy_hosts.py FILE`.
The settings are those of Scrapy's chapter on broad crawls, with two requests a host.
"""

import sys
from pathlib import Path

import scrapy
from scrapy.crawler import CrawlerProcess


class EveryHost(scrapy.Spider):
    name = "every host"

    async def start(self):
        for url in self.seeds:
            yield scrapy.Request(url)

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


if __name__ == "__main__":
    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": 512,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": True,
            "COOKIES_ENABLED": False,
            "RETRY_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "ERROR",
            "REACTOR_THREADPOOL_MAXSIZE": 20,
            "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
        }
    )
    process.crawl(EveryHost, seeds=Path(sys.argv[1]).read_text().split())
    process.start()
