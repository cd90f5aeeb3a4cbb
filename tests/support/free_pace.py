"""A pace without delays, which counts requests and bytes."""


class FreePace:
    def __init__(self):
        self.requests = self.left = self.bytes = 0
        self._is_leaving = False

    async def before_request(self):
        self.requests += 1

    def request_leaves(self, address):
        self._is_leaving = True

    def request_goes(self):
        return

    def request_sent(self):
        self.left += self._is_leaving
        self._is_leaving = False

    def bytes_read(self, count):
        self.bytes += count
