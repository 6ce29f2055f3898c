"""An S3 server for the tests: moto's, which writes down what it was asked for and what it sent.

``python -m tests.store PORT LOG`` serves until it is ended.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.reading import tokens, write

BUCKET = "runs"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIATESTTESTTEST",
    "AWS_SECRET_ACCESS_KEY": "very-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class Request(NamedTuple):
    """What was asked for, and the bytes of the answer's body."""

    method: str
    path: str
    sent: int


@dataclass(frozen=True)
class Store:
    """A server that runs."""

    address: str
    log: Path

    def put(self, key: str, data: bytes) -> None:
        self.system.pipe_file(f"{BUCKET}/{key}", data)

    def put_folder(self, folder: Path, key: str) -> int:
        """Upload a folder's files; return their bytes."""
        size = 0
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(
                    f"{key}/{file.relative_to(folder).as_posix()}", file.read_bytes()
                )
                size += file.stat().st_size
        return size

    def files(self, key: str) -> dict[str, bytes]:
        root = f"{BUCKET}/{key}"
        self.system.invalidate_cache()
        names = self.system.find(root)
        return {
            name.removeprefix(f"{root}/"): self.system.cat_file(name) for name in names
        }

    @property
    def system(self):
        import fsspec

        return fsspec.filesystem("s3")

    def requests(self, method: str = "GET") -> list[Request]:
        """Requests for objects so far; those that list a bucket are none."""
        found = []
        for line in self.log.read_text().splitlines():
            verb, path, sent = line.split("\t")
            if verb == method and path.strip("/").count("/"):
                found.append(Request(verb, path, int(sent)))
        return found

    def forget(self) -> None:
        self.log.write_text("")


@contextmanager
def serving(folder: Path) -> Iterator[Store]:
    """Serve on a free port, with the environment such that S3 is this server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "requests.log"
    log.touch()
    command = [sys.executable, "-m", "tests.store", str(port), str(log)]
    server = subprocess.Popen(command, cwd=Path(__file__).resolve().parents[1])
    address = f"http://127.0.0.1:{port}"
    before = dict(os.environ)
    os.environ.update({**ENVIRONMENT, "AWS_ENDPOINT_URL": address})
    try:
        _await(port, server)
        store = Store(address, log)
        _forget_connections()
        store.system.mkdir(BUCKET)
        yield store
    finally:
        os.environ.clear()
        os.environ.update(before)
        _forget_connections()
        server.kill()
        server.wait()


def short_log(folder: Path) -> Path:
    """A log of six steps of four responses with tokens."""
    rows = [
        tokens("a", "b", step=i // 4, reward=i % 3, response=f"r {i}")
        for i in range(24)
    ]
    return write(folder / "a.jsonl", rows)


def long_log(path: Path, rows: int = 2_500) -> Path:
    """Write a log of 40 MB: 2,500 rows of some 16 kB in 20 steps; or of fewer."""
    path.parent.mkdir()
    arrays = tokens(*[f"word{i % 97}" for i in range(300)])
    lines = []
    for i in range(rows):
        arrays["logprobs"][i % 300] = -1 / (i + 1)
        fields = {"step": 20 * i // rows, "response": f"{i} " * 900}
        lines.append(json.dumps({**arrays, **fields}).encode())
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def _forget_connections() -> None:
    import s3fs

    from rlreport.system.stores import filesystem

    filesystem.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()


def _await(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError


def _serve_ranges_in_their_own_time() -> None:
    """Let moto keep the large object it read last: it reads the whole for every range of it."""
    from moto.s3.models import FakeKey

    whole: Any = vars(FakeKey)["value"]
    getter = whole.fget
    setter = whole.fset
    kept = lru_cache(maxsize=2)(lambda key, etag: getter(key))

    def value(key: Any) -> Any:
        is_large = key.size > 8 << 20
        return kept(key, key.etag) if is_large else getter(key)

    patched: Any = FakeKey
    patched.value = property(value, setter)


def main() -> None:
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    _serve_ranges_in_their_own_time()
    app = DomainDispatcherApplication(create_backend_app)
    log = Path(sys.argv[2]).open("a", buffering=1)  # noqa: SIM115

    def counted(environ, start_response):
        parts = list(app(environ, start_response))
        # Before the client has it all, and may ask what was sent.
        sent = sum(map(len, parts))
        log.write(f"{environ['REQUEST_METHOD']}\t{environ['PATH_INFO']}\t{sent}\n")
        return parts

    class Quiet(MotoRequestHandler):
        def log_request(self, *_):
            pass

    make_server(
        "127.0.0.1", int(sys.argv[1]), counted, True, request_handler=Quiet
    ).serve_forever()


if __name__ == "__main__":
    main()
