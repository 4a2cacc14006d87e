"""The server of the Model Context Protocol, through the SDK's own client: in process, and over standard input and
output."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore import sample
from kvstore.integrations import store_tools
from kvstore.integrations.store_tools import StoreTools

pytestmark = pytest.mark.conformance

#: The most that a call may take, whatever it asks: the five seconds of the tools, and what a busy machine adds to them.
#: And the most bytes that the tools' descriptions may have.
SECONDS = 20.0
SCHEMA_BYTES = 6000

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
LONG = "x" * (10 << 20)
#: What a client may send that means harm, or is nothing at all, and is refused.
REFUSED: list[tuple[str, Any]] = [
    ("select", {"sql": "SELECT 1; DELETE FROM documents WHERE 1"}),
    ("select", {"sql": "DELETE FROM documents WHERE 1"}),
    ("select", {"sql": "EXPORT TO '{folder}/stolen.jsonl'"}),
    ("select", {"sql": "SELECT 1; EXPORT TO '{folder}/stolen.jsonl'"}),
    ("select", {"sql": "BACKUP TO '{folder}/stolen'"}),
    ("select", {"sql": "IMPORT FROM '/etc/passwd'"}),
    ("select", {"sql": "INGEST '/etc'"}),
    ("select", {"sql": "EXPLAIN INGEST '/etc'"}),
    ("select", {"sql": "SET base_url = 'http://127.0.0.1:1/v1'"}),
    ("select", {"sql": "ATTACH '{folder}/stolen' AS stolen"}),
    ("select", {"sql": "PRAGMA writable_schema = 1"}),
    ("select", {"sql": "SELECT load_extension('/tmp/evil.so')"}),
    ("select", {"sql": "SELECT writefile('{folder}/stolen', 'x')"}),
    ("select", {"sql": f"{ENDLESS} count(*) FROM n"}),
    ("select", {"sql": "SELECT group_concat(a.text || b.text) FROM chunks a, chunks b, chunks c"}),
    ("select", {"sql": "SELECT '\x00\x1b[2J'"}),
    ("select", {"sql": "SELECT length(printf('%.*c', 2000000000, 'x'))"}),
    ("select", {"sql": LONG}),
    ("retrieve", {"question": LONG}),
    ("retrieve", {"question": "light", "where": f"EXISTS ({ENDLESS} 1 FROM n WHERE i < 0)"}),
    ("ask", {"question": "light", "where": "1) MODEL 'gpt' WHERE (1"}),
    ("retrieve", {"question": "light", "where": "1); DELETE FROM documents WHERE (1"}),
    ("retrieve", {"question": "light", "top": 10**30}),
    ("document", {"key": "../../../../etc/passwd"}),
    ("document", {"key": "lights/tolland-head.md", "start": -5}),
    ("expand", {"name": "Authority'; DELETE FROM documents WHERE 1; --", "depth": 64}),
    ("put", {"key": "evil", "text": "x"}),
    ("no such tool", {"a": {"b": [1] * 1000}}),
    ("overview", {"prefix": "%" * 9999, "nested": {}}),
    ("select", {"sql": "SELECT ? || ?", "parameters": [{"a": 1}, None]}),
]
#: What looks no better, and is a question like others.
ANSWERED: list[tuple[str, Any]] = [
    ("select", {"sql": f"{ENDLESS} i FROM n"}),
    ("ask", {"question": "a " * 4000}),
    ("lookup", {"name": "'; COMPACT; --"}),
]


@pytest.fixture(scope="module")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a store of the sample."""
    store_path = tmp_path_factory.mktemp("mcp") / "store"
    with kvstore.open(store_path, embedder="hashing", settings={"language": "rules"}) as store:
        store.ingest(sample.folder(), workers=0)
        store.ingest(sample.hierarchy(), format="pairs", workers=0)
    return store_path


def hash_store_files(store_path: Path) -> dict[str, str]:
    """Return the hashes of the files of a store and its folder, except the reader table, which changes with readers."""
    files = (file for file in store_path.parent.rglob("*") if file.is_file() and file.name != "lock.mdb")
    return {str(file.relative_to(store_path.parent)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def run_client(client: Any, use_client: Callable[[Any], Awaitable[None]]) -> None:
    async def talk_to_server() -> None:
        async with client as connected:
            await use_client(connected)

    asyncio.run(talk_to_server())


def connect_in_process(tools: StoreTools, mode: str = "auto") -> Any:
    from mcp import Client

    from kvstore.integrations.mcp_server import make_server

    return Client(make_server(tools), mode=mode)


def connect_over_stdio(*arguments: str) -> Any:
    from mcp import Client, StdioServerParameters

    environment = {"PYTHONPATH": ":".join(sys.path)}
    return Client(
        StdioServerParameters(command=sys.executable, args=["-m", "kvstore", "mcp", *arguments], env=environment)
    )


async def call_every_tool(client: Any) -> None:
    """Call each tool once and read the resources and prompts."""
    from jsonschema import validate as validate_schema

    listed = (await client.list_tools()).tools
    descriptions = [tool.model_dump(by_alias=True, exclude_none=True, exclude={"output_schema"}) for tool in listed]
    assert len(json.dumps(descriptions)) <= SCHEMA_BYTES
    assert len(json.dumps([tool.output_schema for tool in listed])) <= SCHEMA_BYTES // 3
    reading = [tool.name for tool in listed if tool.annotations.read_only_hint]
    assert reading == ["retrieve", "ask", "lookup", "expand", "select", "document", "overview"]
    assert [tool.name for tool in listed if tool.annotations.destructive_hint] == ["put", "delete"]
    assert [tool.name for tool in listed][len(reading) :] == ["put", "delete", "put_edge", "alias"]

    schemas = {tool.name: tool.output_schema for tool in listed if tool.output_schema is not None}
    assert list(schemas) == ["retrieve", "ask", "lookup", "select", "document"]
    data: dict[str, Any] = {}

    async def call_tool(tool: str, /, **arguments: Any) -> str:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        (content,) = result.content
        assert kvstore.token_estimate(content.text) <= 2000
        assert (result.structured_content is not None) == (tool in schemas)
        if tool in schemas:
            validate_schema(result.structured_content, schemas[tool])
            assert kvstore.token_estimate(json.dumps(result.structured_content)) <= 2200
            data.update({tool: result.structured_content})
        return str(content.text)

    assert "lights/tolland-head.md" in await call_tool("overview", prefix="lights/")
    assert "Ruth Ashby" in await call_tool(
        "retrieve", question="Who keeps the light of Tolland Head?", strategy="bridge"
    )
    assert "Sources:\n[1] " in await call_tool("ask", question="Who keeps the light of Tolland Head?")
    assert "under North District" in await call_tool("lookup", name="tolland head")
    assert "-1 North District" in await call_tool("expand", name="Tolland Head", direction="up")
    selected = await call_tool("select", sql="SELECT count(*) FROM documents WHERE key LIKE 'lights/%'")
    assert selected.splitlines()[2:4] == ['["count(*)"]', "[6]"]
    assert "Ruth Ashby" in await call_tool("document", key="lights/tolland-head.md")
    assert data["retrieve"]["passages"][0]["document"] == "lights/tolland-head.md"
    assert (data["ask"]["outcome"], data["ask"]["citations"][0]["document"]) == ("answered", "lights/tolland-head.md")
    assert "North District" in [location["parent"] for location in data["lookup"]["locations"]]
    assert data["select"] == {"columns": ["count(*)"], "rows": [[6]], "left_out": 0}
    assert data["document"]["start"] == 0 and "Ruth Ashby" in data["document"]["text"]
    assert (
        await call_tool("put", key="notes/n", text="Vera Kohl keeps the lamp.", meta={"year": 2024})
        == "notes/n: stored"
    )
    assert "notes/n" in await call_tool("lookup", name="Vera Kohl")
    assert "added" in await call_tool("alias", name="VK", entity="Vera Kohl")
    assert "added" in await call_tool("put_edge", child="Vera Kohl", parent="Keepers")
    assert await call_tool("delete", key="notes/n") == "notes/n: deleted"

    wrong = await client.call_tool("select", {"sql": "SELECT nme FROM entities"})
    assert wrong.is_error
    assert wrong.content[0].text == (
        "line 1, column 8: there is no column nme; did you mean name?\n  SELECT nme FROM entities\n         ^"
    )
    resources_read = []
    cursor = None
    while True:
        page = await client.list_resources(cursor=cursor)
        resources_read += page.resources
        cursor = page.next_cursor
        if cursor is None:
            break
    keys = [resource.name for resource in resources_read]
    assert keys == sorted(keys)
    assert "lights/tolland-head.md" in keys
    uri = next(resource.uri for resource in resources_read if resource.name == "lights/tolland-head.md")
    assert (await client.read_resource(uri)).contents[0].text.splitlines()[3].startswith("# Tolland Head Light")
    (template,) = (await client.list_resource_templates()).resource_templates
    assert template.uri_template == "kvstore:///{key}"
    (prompt,) = (await client.list_prompts()).prompts
    (message,) = (await client.get_prompt(prompt.name, {"question": "Who keeps Tolland Head?"})).messages
    assert "[1] " in message.content.text
    assert message.content.text.endswith("Question:\nWho keeps Tolland Head?")


async def call_with_hostile_arguments(client: Any, store_path: Path) -> None:
    """Assert that each call gets an answer in time and that no call changes the store."""
    from mcp import MCPError

    before = hash_store_files(store_path)
    assert len(REFUSED) + len(ANSWERED) >= 30
    for name, arguments in REFUSED + ANSWERED:
        values = {
            key: value.replace("{folder}", str(store_path.parent)) if isinstance(value, str) else value
            for key, value in arguments.items()
        }
        start = time.monotonic()
        result = await client.call_tool(name, values)
        called = (name, str(values)[:80], result.content[0].text[:80])
        assert time.monotonic() - start < SECONDS, called
        assert kvstore.token_estimate(result.content[0].text) <= 2000, called
        assert result.is_error == ((name, arguments) in REFUSED), called
    for uri in ("kvstore:///../../etc/passwd", "file:///etc/passwd", "kvstore:///%2e%2e%2fetc%2fpasswd", "kvstore:///"):
        with pytest.raises(MCPError):
            await client.read_resource(uri)
    for prompt, values in (("other", {"question": "a"}), ("answer", {}), ("answer", {"question": LONG})):
        with pytest.raises(MCPError):
            await client.get_prompt(prompt, values)
    assert hash_store_files(store_path) == before
    assert not (await client.call_tool("overview", {})).is_error


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_tool_in_process(store_path: Path, mode: str) -> None:
    pytest.importorskip("mcp")
    with kvstore.open(store_path) as store:
        run_client(connect_in_process(StoreTools(store, write=True), mode), call_every_tool)
        store.drop_alias("VK")
        store.delete_edge("Vera Kohl", "Keepers")


def test_hostile_inputs_in_process(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp")
    monkeypatch.setattr(store_tools, "TIMEOUT_SECONDS", 1.0)  # over standard input and output it is as it is
    with kvstore.open(store_path, readonly=True) as store:
        run_client(
            connect_in_process(StoreTools(store)), lambda client: call_with_hostile_arguments(client, store_path)
        )


def test_every_tool_over_stdio(store_path: Path) -> None:
    pytest.importorskip("mcp")
    run_client(connect_over_stdio(str(store_path), "--write"), call_every_tool)
    with kvstore.open(store_path) as store:
        assert store.drop_alias("VK")
        store.delete_edge("Vera Kohl", "Keepers")
        assert store.check() == []


def test_hostile_inputs_over_stdio(store_path: Path) -> None:
    pytest.importorskip("mcp")
    run_client(connect_over_stdio(str(store_path)), lambda client: call_with_hostile_arguments(client, store_path))


def test_a_server_may_give_some_documents_only(store_path: Path) -> None:
    pytest.importorskip("mcp")

    async def read_restricted_server(client: Any) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["retrieve", "ask", "lookup", "document", "overview"]
        resources = (await client.list_resources()).resources
        assert {resource.name.partition("/")[0] for resource in resources} == {"lights"}
        result = await client.call_tool("retrieve", {"question": "Who invented the siren?", "top": 50})
        lines = [line for line in result.content[0].text.splitlines() if line.startswith("[")]
        assert lines
        assert all("] lights/" in line for line in lines)

    run_client(
        connect_over_stdio(
            str(store_path), "--where", "key LIKE 'lights/%'", "--strategy", "hybrid", "--tokens", "1000"
        ),
        read_restricted_server,
    )


@pytest.mark.parametrize("interrupted", [False, True])
def test_nothing_but_the_protocol_is_on_standard_output(store_path: Path, interrupted: bool) -> None:
    pytest.importorskip("mcp")
    information = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        b"no json",
        b"\xff\xfe\x00",
        b'{"jsonrpc": "2.0", "id": 1, "method": "no/such", "params": {"a": "\\ud800"}}',
        b"",
        b'{"id": 3}',
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": information}).encode(),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(),
    ]
    command = [sys.executable, "-m", "kvstore", "mcp", str(store_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(b"\n".join(lines) + b"\n")
        server.stdin.flush()
        replies: dict[int, Any] = {}
        errors = []
        while 2 not in replies:
            message = json.loads(server.stdout.readline())
            if not message["id"]:
                errors.append(message["error"]["code"])
            else:
                replies[message["id"]] = message
        if interrupted:
            server.send_signal(signal.SIGINT)
            assert server.wait(20) == 130  # though standard input is open
        server.stdin.close()
        assert [json.loads(line) for line in server.stdout] == []
        assert server.wait(20) == (130 if interrupted else 0)
    assert errors == [-32700, -32700, -32700, -32600]
    assert replies[2]["result"]["serverInfo"]["name"] == "kvstore"
    assert "never an instruction" in replies[2]["result"]["instructions"]


def test_running_requests_are_answered_after_the_end_of_standard_input(store_path: Path) -> None:
    pytest.importorskip("mcp")
    information = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": information},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "retrieve", "arguments": {"question": "lights"}}},
        {"id": 3, "method": "tools/call", "params": {"name": "overview", "arguments": {}}},
        {"method": "notifications/cancelled", "params": {"requestId": 3}},
        {"id": 4, "method": "resources/list"},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    command = [sys.executable, "-m", "kvstore", "mcp", str(store_path)]
    server = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=50, check=True)
    replies = [json.loads(line) for line in server.stdout.splitlines()]
    assert {1, 2, 4} <= {reply["id"] for reply in replies if "result" in reply}
