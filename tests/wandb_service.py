"""A stand-in for W&B's server on this machine: it answers the queries that its client sends.

The queries are those of the client's code (wandb 0.31: ``apis/public``, and its core for the
history); what the server would answer is in its GraphQL schema. Nothing leaves the machine.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = dict[str, Any]


class Run:
    """A run as the server has it: its rows, configuration and tables by their paths."""

    def __init__(
        self,
        id: str,
        rows: list[Answer],
        config: Answer | None = None,
        tables: dict[str, str] | None = None,
        name: str = "swift-fox-3",
    ) -> None:
        self.id = id
        self.name = name
        self.rows = [{"_step": i, **row} for i, row in enumerate(rows)]
        self.tables = tables or {}
        self.state = "finished"
        self.summary: Answer = {}
        self.is_lost = False  # it is listed, but not given
        settings = config or {}
        self.config = {name: {"value": value} for name, value in settings.items()}

    def about(self) -> Answer:
        """Return the answer to the query of a run."""
        return {
            "id": f"id-of-{self.id}",
            "projectId": "1",
            "name": self.id,
            "displayName": self.name,
            "tags": [],
            "sweepName": None,
            "state": self.state,
            "config": json.dumps(self.config),
            "group": None,
            "jobType": None,
            "commit": None,
            "readOnly": True,
            "createdAt": "2026-01-01T00:00:00Z",
            "heartbeatAt": "2026-01-01T01:00:00Z",
            "description": "",
            "notes": "",
            "systemMetrics": "{}",
            "summaryMetrics": json.dumps(self.summary),
            "historyLineCount": len(self.rows),
            "user": {"name": "u", "username": "u"},
            "historyKeys": {"lastStep": len(self.rows) - 1, "sets": [], "keys": {}},
        }

    def history(self, first: int, stop: int) -> list[str]:
        return [json.dumps(row) for row in self.rows if first <= row["_step"] < stop]


class Service:
    """The server: its address, its runs by id, and the queries that came."""

    def __init__(self, runs: list[Run], key: str) -> None:
        self.runs = {run.id: run for run in runs}
        self.key = key
        self.queries: list[str] = []
        self.address = ""

    def answer(self, query: str, variables: Answer) -> Answer:
        name = re.findall(r"query (\w+)", query)[0]
        self.queries.append(name)
        viewer = {
            "id": "1",
            "entity": "team",
            "username": "u",
            "email": "",
            "flags": "{}",
        }
        if name in ("Viewer", "GetDefaultEntity"):
            return {"viewer": viewer | {"teams": {"edges": []}}}
        if name == "Runs":
            edges = [
                {"node": run.about(), "cursor": run.id} for run in self.runs.values()
            ]
            page = {"endCursor": None, "hasNextPage": False}
            runs = {"edges": edges, "pageInfo": page}
            count = len(edges)
            project = {
                "internalId": "1",
                "runCount": count,
                "readOnly": True,
                "runs": runs,
            }
            return {"project": project}
        run = self.runs.get(
            variables.get("name") or variables.get("run") or variables["runName"]
        )
        if run is None or run.is_lost:
            return {"project": {"internalId": "1", "run": None}}
        return {
            "project": {
                "internalId": "1",
                "run": run.about() | self._part(run, variables),
            }
        }

    def _part(self, run: Run, variables: Answer) -> Answer:
        """Return what the query of a run's history or files asks for."""
        files = [
            {
                "node": {
                    "id": path,
                    "name": path,
                    "url": f"{self.address}/files/{run.id}/{path}",
                    "directUrl": f"{self.address}/files/{run.id}/{path}",
                    "sizeBytes": len(text),
                    "mimetype": "application/json",
                    "updatedAt": "2026-01-01T00:00:00Z",
                    "md5": "",
                },
                "cursor": path,
            }
            for path, text in run.tables.items()
            if path in variables.get("fileNames", ())
        ]
        page = {"endCursor": None, "hasNextPage": False}
        first = variables.get("minStep", 0)
        return {
            "history": run.history(first, variables.get("maxStep", 1 << 60)),
            "parquetHistory": {"parquetUrls": [], "liveData": []},
            "fileCount": len(files),
            "files": {"edges": files, "pageInfo": page},
        }


@contextmanager
def wandb_service(runs: list[Run], key: str) -> Iterator[Service]:
    """Run the server while the block runs."""
    service = Service(runs, key)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path != "/graphql":  # the client's own telemetry
                self.reply(b"{}")
                return
            asked = json.loads(body)
            answer = service.answer(asked["query"], asked.get("variables") or {})
            self.reply(json.dumps({"data": answer}).encode())

        def do_GET(self) -> None:
            _, _, id, path = self.path.split("/", 3)
            self.reply(service.runs[id].tables[path].encode())

        def reply(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
