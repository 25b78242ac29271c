"""A server that does one thing wrong, the one named on its command line. It needs nothing but Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

fault, *rest = sys.argv[1:]


def say(message: dict[str, Any]) -> None:
    """Writes a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A tool that takes anything."""
    return {"name": name, "description": "Works.", "inputSchema": {"type": "object"}, **more}


listed = [0]


def listing(cursor: str | None) -> dict[str, Any]:
    """What ``tools/list`` answers."""
    listed[0] += 1
    if fault == "pages":
        number = int(cursor or 0)
        return {"tools": [tool(f"t{9 - number}")], **({"nextCursor": str(number + 1)} if number < 5 else {})}
    if fault == "endless":
        return {"tools": [tool("work"), tool("work")], "nextCursor": "again"}
    if fault in ("changing", "restless") and listed[0] > 1:
        return {"tools": [tool("work", description="Works otherwise."), tool("more")]}
    if fault == "described":
        wrong = [tool("far", inputSchema="x"), tool("odd", annotations={"destructiveHint": "maybe"}), {"name": 5}]
        return {"tools": [*wrong, {"name": "bare"}, tool("work", outputSchema={"type": "string"}, icons=5)]}
    if fault == "replaced" and Path(rest[0]).exists():
        return {"tools": [tool("work", description="Works otherwise.")]}
    if fault == "escaping":
        return {"tools": [tool("w\x1b[31mork\nx")] * 50}
    if fault == "remote":
        schema = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/a.json"}}}
        return {"tools": [tool("work"), tool("far", inputSchema=schema)]}
    if fault == "hidden":
        return {"tools": [tool("work", description="Works.\u200b\U000e0041\x1b[2J\nWell.")]}
    return {"tools": [tool("work"), tool("mismatch", outputSchema={"type": "object", "required": ["a"]})]}


def answer(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What is said to a call."""
    text = {"content": [{"type": "text", "text": "fine"}]}
    if request["params"]["name"] == "mismatch":
        yield {"id": request["id"], "result": {**text, "structuredContent": {"b": 1}}}
    elif fault == "line":
        yield {"id": request["id"], "result": {"content": [{"type": "text", "text": "x" * 5_000_000}]}}
    elif fault == "ids":
        yield {"id": 987654, "result": text}
        yield {"id": "other", "result": text}
    elif fault in ("bytes", "halves", "nothing"):
        said = {"bytes": b"caf\xe9", "halves": b"half \\ud800 pair, \\ud83d\\ude00"}
        result = b'{"content":[{"type":"text","text":"%s"}]}' % said[fault] if fault in said else b"null"
        start = json.dumps({"jsonrpc": "2.0", "id": request["id"]})[:-1].encode()
        sys.stdout.buffer.write(start + b',"result":' + result + b"}\n")
        sys.stdout.flush()
    elif fault == "blocks":
        yield {"id": request["id"], "result": {"content": [{"type": "hologram"}, *text["content"]]}}
    elif fault == "contentless":
        yield {"id": request["id"], "result": {"structuredContent": {"a": 1}}}
    elif fault == "result":
        yield {"id": request["id"], "result": {"content": "no list"}}
    elif fault == "error":
        yield {"id": request["id"], "error": {"code": -32603, "message": "no more room"}}
    elif fault == "crash":
        os._exit(3)
    elif fault in ("crash-once", "replaced"):
        mark = Path(rest[0])
        if not mark.exists():
            mark.write_text("crashed")
            os._exit(3)
        yield {"id": request["id"], "result": text}
    elif fault == "changing":
        yield {"method": "notifications/tools/list_changed"}
        yield {"id": request["id"], "result": text}
    elif fault == "spam":
        note = {"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}}
        for _ in range(2000):
            yield note
        yield {"id": request["id"], "result": text}
    elif fault != "hang":
        yield {"id": request["id"], "result": text}


def begin() -> None:
    """What the fault does at the start."""
    if fault == "exit":
        sys.stderr.write("no licence\n")
        sys.exit(3)
    if fault == "mute":
        os.close(1)
    if fault in ("silent", "mute"):
        time.sleep(3600)
    if fault == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if fault in ("deaf", "none") and rest:
        Path(rest[0]).write_text(str(os.getpid()))
    if fault == "noise":
        for number in range(2000):
            sys.stderr.write(f"line {number} \x1b[31m\n")
        sys.stderr.flush()
        sys.stdout.write("Welcome!\n")
    if fault in ("child", "escape"):
        child = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=fault == "escape"
        )
        Path(rest[0]).write_text(str(child.pid))


def main() -> None:
    """Reads requests and answers them."""
    begin()
    for line in sys.stdin:
        request = json.loads(line)
        if fault == "refusing" and "id" in request:
            say(
                {
                    "id": request["id"],
                    "error": {"code": -1, "message": "no \x1b[31mlicence\n\u2028INFO: all is well"},
                }
            )
        elif request.get("method") == "initialize":
            version = request["params"]["protocolVersion"]
            capabilities = {"tools": {"listChanged": True}}
            result = {
                "protocolVersion": version,
                "capabilities": capabilities,
                "serverInfo": {"name": "f", "version": "1"},
            }
            say({"id": request["id"], "result": result})
        elif request.get("method") == "tools/list":
            if fault == "toolless":
                say({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
                continue
            say({"id": request["id"], "result": listing(request.get("params", {}).get("cursor"))})
            if fault == "restless" and listed[0] == 1:
                while not Path(rest[0]).exists():
                    time.sleep(0.01)
                say({"method": "notifications/tools/list_changed"})
        elif request.get("method") == "tools/call":
            for message in answer(request):
                say(message)
        elif "id" in request:
            say({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
    if fault == "deaf":
        time.sleep(3600)


if __name__ == "__main__":
    main()
