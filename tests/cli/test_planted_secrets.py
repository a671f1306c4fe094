"""A marker is planted in every place that can hold a secret. No output of any command contains it.

Rules of this file
1. Output is stdout, stderr and every file that a command writes. Zip members and tables are searched as well.
2. The marker is searched as text, hex and base64.
3. RAW lists the outputs that contain the bytes of the wire by design (docs/dissect.md, SECURITY.md).
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile

import pytest
import typer.main

from pcli.cli.commands import application
from pcli.codec.capture.tap_recording import Recording
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.minibroker import MiniBroker

MARKER = "planted5ecretXYZ"
SECRET = MARKER.encode()
FORMS = [SECRET, SECRET.hex().encode(), SECRET.hex().upper().encode(), SECRET.hex(" ").encode(), SECRET[::-1]] + [
    base64.b64encode(b"x" * shift + SECRET)[3 if shift else 0 : -4] for shift in range(3)
]
"""The marker in the forms that output can have. Base64 depends on the position of the marker modulo 3."""
START = 1_700_000_000 * 10**9
CLIENT, BROKER = ("10.0.0.1", 40000), ("10.0.0.2", 6650)
AUTH = pb.AuthData(auth_method_name="sasl", auth_data=SECRET)
TOPIC = "persistent://public/default/t"

RAW = {
    "browse": "needs a terminal; its panes are searched in tests/cli/browse/test_app.py",
    "capture": "records packets as they are",
    "encode": "converts the given fields to a frame",
    "token create": "prints a token; its key is searched in test_keys_of_tokens_are_not_printed",
    "wireshark": "reads no input",
}


def connect():
    return pb.CommandConnect(
        client_version="test",
        protocol_version=21,
        auth_method_name="token",
        auth_data=SECRET,
        original_principal="alice",
        original_auth_data=MARKER,
        original_auth_method="token",
    )


def conversation():
    """Return (from_client, bytes) of a conversation whose credentials contain the marker."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    place = pb.MessageIdData(ledgerId=1, entryId=0)
    return [
        (True, push_frame(connect())),
        (False, push_frame(pb.CommandAuthChallenge(challenge=AUTH, protocol_version=21))),
        (True, push_frame(pb.CommandAuthResponse(response=AUTH, protocol_version=21))),
        (False, push_frame(pb.CommandConnected(server_version="Pulsar Server4.2.4", protocol_version=21))),
        (
            True,
            push_frame(pb.CommandPartitionedTopicMetadata(topic=TOPIC, request_id=1, original_auth_data=MARKER)),
        ),
        (
            False,
            push_frame(pb.CommandPartitionedTopicMetadataResponse(request_id=1, partitions=0, response=0)),
        ),
        (True, push_frame(pb.CommandLookupTopic(topic=TOPIC, request_id=2, original_auth_data=MARKER))),
        (False, push_frame(pb.CommandLookupTopicResponse(request_id=2, response=1, brokerServiceUrl="pulsar://b:1"))),
        (True, push_frame(pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=3))),
        (False, push_frame(pb.CommandProducerSuccess(request_id=3, producer_name="p"))),
        (True, push_frame(pb.CommandSend(producer_id=1, sequence_id=0), push_entry(metadata, b"hello"))),
        (False, push_frame(pb.CommandSendReceipt(producer_id=1, sequence_id=0, message_id=place))),
        (True, push_frame(pb.CommandAuthResponse(response=AUTH, protocol_version=21))),
        (False, push_frame(pb.CommandError(request_id=1 << 63, error=pb.AuthenticationError, message="refused"))),
    ]


def record(path, *connections):
    """Write a capture with these connections, each a list of (from_client, bytes)."""
    with path.open("wb") as file:
        recording = Recording(file)
        for number, parts in enumerate(connections):
            recording.opened(number, (CLIENT[0], CLIENT[1] + number), BROKER, START)
            for step, (from_client, data) in enumerate(parts):
                recording.passed(number, data, START + step * 10**6, from_client=from_client)
            recording.closed(number, START + 10**9, from_client=True, reset=False, reason="")
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files that contain the marker: a capture, keys, a key log, settings."""
    folder = tmp_path_factory.mktemp("planted")
    frame = push_frame(connect())
    http = (
        b"POST /admin/v2/namespaces/public/default/offloadPolicies HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer "
        + SECRET
        + b"\r\nContent-Length: 60\r\n\r\n"
        + b'{"s3ManagedLedgerOffloadCredentialSecret":"'
        + SECRET
        + b'"}'
    )
    malformed = bytearray(frame)
    malformed[12:14] = b"\xff\xff"
    paths = {
        "capture": record(
            folder / "talk.pcapng",
            conversation(),
            [(True, http)],
            [(True, bytes(malformed)), (False, push_frame(pb.CommandPing()))],
            [(True, frame[7:] + push_frame(pb.CommandPing())), (False, push_frame(pb.CommandPong()))],
        ),
        "malformed": record(folder / "malformed.pcapng", [(True, bytes(malformed))]),
        "key": str(folder / "client.key"),
        "keylog": str(folder / "keys.log"),
        "conf": str(folder / "broker.conf"),
        "frame": frame.hex(),
        "out": str(folder / "out"),
    }
    (folder / "client.key").write_text(f"-----BEGIN PRIVATE KEY-----\n{MARKER}\n-----END PRIVATE KEY-----\n")
    (folder / "keys.log").write_text(f"CLIENT_RANDOM {'00' * 32} {SECRET.hex() * 3}\nCLIENT_RANDOM {MARKER}\n")
    (folder / "broker.conf").write_text(f"clusterName=standalone\ntokenSecretKey: {MARKER}\n")
    return paths


@pytest.fixture(scope="module")
def urls():
    with MiniBroker() as broker:
        host = broker.service_url.removeprefix("pulsar://")
        web = broker.http_url.removeprefix("http://")
        yield {
            "url": broker.service_url,
            "userinfo": f"pulsar://user:{MARKER}@{host}",
            "nobody": f"pulsar://user:{MARKER}@127.0.0.1:1",
            "admin": broker.http_url,
            "admin_userinfo": f"http://user:{MARKER}@{web}",
            "admin_nobody": f"http://user:{MARKER}@127.0.0.1:1",
        }


CREDENTIALS = [
    ["--token", MARKER],
    ["--basic", f"user:{MARKER}"],
    ["--token", "file:{key}"],
    ["--tls-cert", "{key}", "--tls-key", "{key}"],
    ["--tls-trust", "{key}"],
]
READ = ["-r", "{capture}"]
KEYS = ["--keylog", "{keylog}"]
REFUSED = f"s3://key:{MARKER}@bucket/x?wrong=1"
"""A folder that pyarrow does not open."""
ADMIN = [["--admin", "{admin}", *CREDENTIALS[0]], ["--admin", "{admin_userinfo}"], ["--admin", "{admin_nobody}"]]
CLIENTS = [*(["-u", "{url}", *given] for given in CREDENTIALS), ["-u", "{userinfo}"], ["-u", "{nobody}"]]
STATS = ("io", "conv", "types", "latency", "topics", "consumers", "balances", "permits", "keys", "segments")

CASES = {
    "dissect": [
        *([*READ, "-T", form] for form in ("text", "tree", "json", "ndjson")),
        [*READ, "-T", "fields", "-e", "pulsar.auth_data", "-e", "pulsar.connect.auth_data"],
        [*READ, "-x", "-V", "--payload", "--system"],
        [*READ, "-2", "-w", "{out}/frames.pcapng"],
        [*READ, *KEYS],
        ["-r", "{malformed}", "-x", "-V"],
        [*READ, "-Y", "pulsar.auth_data == 1"],
    ],
    "follow": [[*READ, "--stream", "0"], [*READ, "--stream", "1"], [*READ, "--stream", "0", "-T", "mermaid"]],
    # -T wire is the complete frame as input of `pcli encode`.
    "decode": [["{frame}", "-T", form] for form in ("tree", "json", "ndjson")],
    "fields": [[], ["auth"]],
    "diagnose": [*([*READ, "-T", form] for form in ("text", "json", "ndjson", "html")), *([*READ, *a] for a in ADMIN)],
    "why": [
        *([*READ, "-T", form, "--kind", "connection", "0"] for form in ("text", "json")),
        *([*READ, *given, "--kind", "producer", "p"] for given in ADMIN),
    ],
    "top": [
        [*READ, "--once"],
        ["--broker", "{admin}", "--once", *CREDENTIALS[0]],
        ["--broker", "{admin_userinfo}", "--once"],
        ["--broker", "{admin_nobody}", "--once"],
    ],
    "trace": [[*READ, "-T", form] for form in ("text", "json", "ndjson", "mermaid")],
    "export": [
        [*READ, "--otlp-timeout", "0.2", *given]
        for given in (
            ["--otlp", f"http://user:{MARKER}@127.0.0.1:1", "--otlp-header", f"authorization=Bearer {MARKER}"],
            ["--otlp", f"http://user:{MARKER}@127.0.0.1:1", "--otlp-protocol", "grpc"],
            ["--otlp", f"user:{MARKER}@127.0.0.1:1"],
            ["--otlp", "http://127.0.0.1:1", "--otlp-header", f"authorization: {MARKER}"],
            ["--otlp", "http://127.0.0.1:1", "--otlp-trust", "{key}"],
        )
    ],
    "bundle": [[*READ, "-o", "{out}/issue.zip"], [*READ, "-o", "{out}/names.zip", "--keep-names"]],
    "replay": [
        ["{capture}"],
        ["{capture}", "--dry-run"],
        ["{capture}", "--report", "{out}/replay.json"],
        *(["{malformed}", "--to", "{url}", *given] for given in CREDENTIALS),
        ["{capture}", "--to", "{userinfo}"],
        ["{capture}", "--to", "{nobody}"],
        ["{capture}", "--set", f"tokenSecretKey={MARKER}", "--set", "authenticationEnabled=true"],
    ],
    "reproduce": [["{capture}"], ["{capture}", "-o", "{out}/test_it.py"]],
    "produce": [*(["t", "-m", "hello", *given] for given in CLIENTS), ["--help"]],
    "consume": [*(["t", "--last", "1", "--exit-at-end", "-T", "json", *given] for given in CLIENTS), ["--help"]],
    "analyze": [
        ["{capture}", "-o", "{out}/tables", "--frames", "--report", "{out}/report.html"],
        ["{capture}", "-o", REFUSED],
        ["{capture}", "-o", "{out}/more", *KEYS],
    ],
    "report": [["{out}/tables", "-o", "{out}/again.html"], [REFUSED, "-o", "-"]],
    "sql": [
        *(["{out}/tables", f"SELECT * FROM {table}", "-T", "json"] for table in ("messages", "exchanges", "findings")),
        [REFUSED, "SELECT 1"],
    ],
    "tables list": [["{out}/tables", "--runs"], [REFUSED]],
    "tables vacuum": [["{out}/tables"], [REFUSED]],
    "tables compact": [["{out}/tables"], [REFUSED]],
    "doctor": [[], ["-T", "json"]],
    "token show": [[MARKER]],
    "token validate": [[MARKER, "--secret-key", MARKER], ["x.y.z", "--secret-key", f"data:;base64,{MARKER}"]],
    "broker": [
        ["--port", "0", "--http-port", "0", "--set", setting]
        for setting in (f"tokenSecretKey: {MARKER}", f"tokenSecretKey {MARKER}", f"tokenSecretKye={MARKER}")
    ]
    + [
        ["--port", "0", "--http-port", "0", "--conf", "{conf}"],
        ["--port", "0", "--http-port", "0", "--tls-cert", "{key}"],
    ],
    "proxy": [
        ["--to", "{nobody}", "--listen", "0", "--bind", "203.0.113.7", "--insecure"],
        ["--to", "b:1", "--listen", "0", "--listen-cert", "{key}", "--listen-key", "{key}"],
    ],
    **{f"stats {name}": [READ] for name in STATS},
}
"""The arguments of each command. Servers also run in test_servers_hide_the_credentials_of_clients."""
SPARK = {
    "spark-analyze": [
        ["{capture}", "-o", "{out}/spark", "--master", "local[1]", "--conf", f"spark.hadoop.fs.s3a.secret.key={MARKER}"]
    ],
    "spark-stream": [["{out}", "-o", f"s3a://key:{MARKER}@bucket/x", "--once", "--checkpoint", "{out}/check"]],
}


ENVIRONMENT = {
    "PCLI_URL": ["pulsar://user:{marker}@127.0.0.1:1", "pulsar://user:{marker}@127.0.0.1:port", "ftp://{marker}@b"],
    "PCLI_TOKEN": ["{marker}", "{marker}\n{marker}", "\u00e9{marker}"],
    "PCLI_BASIC": ["{marker}", "user:{marker}", "user:{marker}\n"],
}
"""The values of environment variables that commands use instead of options."""


def commands():
    """Return the commands by name."""
    group = typer.main.get_command(application())
    found = {}
    for name, command in group.commands.items():
        subcommands = getattr(command, "commands", None)
        found.update(
            {name: command} if subcommands is None else {f"{name} {sub}": subcommands[sub] for sub in subcommands}
        )
    return found


DUMP = re.compile(rb"^ *[0-9a-f]{4}  ((?:[0-9a-f]{2} )+)", re.MULTILINE)
"""A line of a hex dump."""


def found_in(*texts):
    """Return the forms of the marker in texts. The bytes in hex dumps are searched as well."""
    dumps = [bytes.fromhex(b"".join(DUMP.findall(text)).decode()) for text in texts]
    return [form for text in (*texts, *dumps) for form in FORMS if form in text]


def contents(folder):
    """Return the contents of all files in a folder, with the members of archives and the values of tables."""
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield data
            if path.suffix == ".zip":
                with zipfile.ZipFile(io.BytesIO(data)) as archive:
                    yield from map(archive.read, archive.namelist())
            elif path.suffix == ".parquet":
                import pyarrow.parquet

                yield str(pyarrow.parquet.read_table(path).to_pylist()).encode()


def test_every_command_is_searched():
    assert sorted(commands()) == sorted([*CASES, *SPARK, *RAW])


def test_every_environment_variable_is_searched():
    variables = {param.envvar for command in commands().values() for param in command.params if param.envvar}
    assert variables == set(ENVIRONMENT)


@pytest.mark.parametrize("variable", ENVIRONMENT)
@pytest.mark.parametrize("command", [("produce", "t", "-m", "hello"), ("consume", "t"), ("produce", "--help")])
def test_no_output_contains_the_value_of_an_environment_variable(pcli, monkeypatch, variable, command):
    if variable != "PCLI_URL":
        monkeypatch.setenv("PCLI_URL", "pulsar://127.0.0.1:1")
    for value in ENVIRONMENT[variable]:
        monkeypatch.setenv(variable, value.format(marker=MARKER))
        result = pcli(*command)
        assert not found_in(result.raw, result.err.encode())


@pytest.mark.parametrize("command", CASES)
def test_no_output_contains_a_secret(pcli, files, urls, tmp_path, monkeypatch, command):
    monkeypatch.setenv("PCLI_TOKEN", MARKER)
    reads_tables = command in ("report", "sql") or command.startswith("tables ")
    if reads_tables:
        pcli("analyze", files["capture"], "-o", tmp_path / "tables")
    leaks = []
    for number, arguments in enumerate(CASES[command]):
        folder = tmp_path if reads_tables else tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        given = [text.format(**{**files, **urls, "out": folder}) for text in arguments]
        result = pcli(*command.split(), *given)
        if found_in(result.raw, result.err.encode(), *contents(folder)):
            leaks.append(" ".join(given))
    assert leaks == []


def test_keys_of_tokens_are_not_printed(pcli):
    key = base64.b64encode(SECRET * 4).decode()
    for form in (key, f"data:;base64,{key}"):
        result = pcli("token", "create", "--subject", "alice", "--secret-key", form)
        assert result.code == 0
        assert not found_in(result.raw, result.err.encode())
    for form in (MARKER, f"data:;base64,{MARKER}", f"file:///nowhere/key?{MARKER[:0]}"):
        result = pcli("token", "create", "--subject", "alice", "--private-key", form)
        assert result.code == 2
        assert not found_in(result.raw, result.err.encode())


def call(url, headers, body=None):
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(request, timeout=10).close()


@pytest.mark.parametrize("form", ["text", "ndjson"])
@pytest.mark.parametrize("authentication", [False, True])
def test_servers_hide_the_credentials_of_clients(tmp_path, form, authentication):
    """A broker and a proxy that log everything, and clients whose commands and requests contain the marker."""
    ready = tmp_path / "ready"
    key = base64.b64encode(SECRET * 4).decode()
    settings = ["authenticationEnabled=true", "authenticationProviders=AuthenticationProviderToken"]
    more = [word for setting in settings if authentication for word in ("--set", setting)]
    broker = [
        *["broker", "--port", "0", "--http-port", "0", "--log", "frames"],
        "-T",
        form,
        "--set",
        f"tokenSecretKey={key}",
        *more,
    ]
    outputs = []
    with start([*broker, "--ready-file", str(ready)], outputs):
        while not ready.exists():
            time.sleep(0.02)
        urls = json.loads(ready.read_text())
        port = int(urls["service_url"].rpartition(":")[2])
        proxy = free_port()
        with start([*["proxy", "--diagnose"], "--to", f"127.0.0.1:{port}", "--listen", proxy, "-T", form], outputs):
            for target in (port, proxy):
                send(target, [data for from_client, data in conversation() if from_client])
            path = "/admin/v2/namespaces/public/default/offloadPolicies"
            body = json.dumps({"s3ManagedLedgerOffloadCredentialSecret": MARKER, "x": [MARKER]}).encode()
            for value in (f"Bearer {MARKER}", "Basic " + base64.b64encode(f"u:{MARKER}".encode()).decode()):
                call(urls["http_url"] + path, {"Authorization": value}, body)
                call(urls["http_url"] + "/admin/v2/brokers/configuration/runtime", {"Authorization": value})
    assert len(outputs) == 2
    assert not found_in(*outputs)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def send(port, frames):
    deadline = time.monotonic() + 10
    while True:
        try:
            peer = socket.create_connection(("127.0.0.1", port), timeout=10)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    with peer:
        for frame in frames:
            with contextlib.suppress(OSError):
                peer.sendall(frame)
        with contextlib.suppress(OSError):  # the server may have closed the connection
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(1 << 16):
                pass


@contextlib.contextmanager
def start(arguments, outputs):
    """Run a server, stop it, and append its output."""
    command = [sys.executable, "-m", "pcli.cli", *map(str, arguments)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        outputs.append(server.communicate(timeout=20)[0])


@pytest.mark.slow
@pytest.mark.parametrize("command", SPARK)
def test_no_output_of_spark_contains_a_secret(files, tmp_path, command):
    """The command runs in a process of its own, because the process of the tests can have a session of Spark."""
    pytest.importorskip("pyspark")
    for arguments in SPARK[command]:
        given = [text.format(**{**files, "out": tmp_path}) for text in arguments]
        result = subprocess.run([sys.executable, "-m", "pcli.cli", command, *given], capture_output=True, check=False)
        assert not found_in(result.stdout, result.stderr, *contents(tmp_path))
