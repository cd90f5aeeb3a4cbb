"""A small server that speaks the contract of Apache Tika Server: PUT /rmeta/text."""

import json
from contextlib import asynccontextmanager

from aiohttp import web


class TikaServer:
    """Answers with the text of the body, and a part for each line that begins with +."""

    def __init__(self):
        self.status = 200
        self.headers = {}
        self.raw = None
        self.hangs = None
        self.asked = []

    async def answer(self, request):
        body = await request.read()
        self.asked.append((request.path, dict(request.headers), body))
        if self.hangs is not None:
            await self.hangs.wait()
        if self.status != 200:
            return web.Response(status=self.status, headers=self.headers)
        if self.raw is not None:
            return web.Response(body=self.raw, content_type="application/json")
        lines = body.decode().splitlines()
        document = {
            "Content-Type": request.headers["Content-Type"] + "; charset=UTF-8",
            "X-TIKA:content": "\n\n" + "\n".join(line for line in lines if not line.startswith("+")),
            "dc:title": "The title",
            "dc:creator": ["Ada Author", "Bob Author"],
            "dcterms:created": "2024-05-06T07:08:09Z",
            "X-TIKA:Parsed-By": "org.apache.tika.parser.DefaultParser",
        }
        parts = [
            {
                "Content-Type": "text/plain",
                "X-TIKA:content": line[1:],
                "X-TIKA:embedded_resource_path": f"/part{number}.txt",
            }
            for number, line in enumerate(lines, 1)
            if line.startswith("+")
        ]
        return web.Response(body=json.dumps([document, *parts]).encode(), content_type="application/json")


@asynccontextmanager
async def tika():
    """Run the server, and yield it with its address."""
    server = TikaServer()
    app = web.Application(client_max_size=2**24)
    app.router.add_put("/rmeta/text", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        if server.hangs is not None:
            server.hangs.set()
        await runner.cleanup()
