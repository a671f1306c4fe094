"""`pcli bundle`: a zip that can be attached to a public issue."""

import json
import shutil
import subprocess
import zipfile

import pytest

NAMES = {"README.txt", "capture.pcapng", "findings.json", "findings.txt", "trace.txt", "versions.txt"}


@pytest.fixture
def bundle(pcli, tmp_path):
    """Create a bundle and unpack it."""

    def make(path, *arguments):
        result = pcli("bundle", "-r", path, "-o", tmp_path / "issue.zip", *arguments)
        assert result.code == 0, result.err
        assert result.out == ""
        assert sorted(one.name for one in tmp_path.iterdir()) == ["issue.zip"]
        folder = tmp_path / "unpacked"
        with zipfile.ZipFile(tmp_path / "issue.zip") as archive:
            assert set(archive.namelist()) == NAMES
            archive.extractall(folder)
        return folder

    return make


def findings(pcli, path):
    result = pcli("diagnose", "-r", path, "-T", "json")
    return json.loads(result.out)["findings"]


def bare(found):
    """Return findings without names."""
    return sorted(
        (one["rule"], one["variant"], one["severity"], one["certainty"], one["cause"]["culprit"], str(one["since"]),
         *(frame["number"] for frame in one["frames"]))
        for one in found
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["go/nack.pcap", "java/key-shared-sticky.pcap", "java/refusals.pcap", "flex/04-reconnect.pcapng"]
)
def test_diagnose_finds_the_same(bundle, pcli, small_captures, name):
    folder = bundle(small_captures / name)
    found = bare(findings(pcli, small_captures / name))
    assert found
    assert bare(findings(pcli, folder / "capture.pcapng")) == found
    assert bare(json.loads((folder / "findings.json").read_text())["findings"]) == found


def test_contents_of_the_zip_file(bundle, small_captures):
    folder = bundle(small_captures / "go/nack.pcap")
    assert "redelivered" in (folder / "findings.txt").read_text()
    assert "asked again" in (folder / "trace.txt").read_text()
    versions = (folder / "versions.txt").read_text().splitlines()
    assert [line for line in versions if line.startswith("client: Pulsar-Go")]
    assert [line for line in versions if line.startswith("broker: Pulsar Server")]
    assert "pseudonyms" in (folder / "README.txt").read_text()


def test_no_file_of_it_names_anybody(bundle, small_captures):
    folder = bundle(small_captures / "go/nack.pcap")
    truth = json.loads((small_captures / "go/nack.truth.json").read_text())
    topics = {event["topic"].rpartition("/")[2] for event in truth["events"] if "topic" in event}
    assert topics
    for path in folder.iterdir():
        data = path.read_bytes()
        assert not [topic for topic in topics if topic.encode() in data]


def test_names_are_kept_on_request(bundle, small_captures):
    folder = bundle(small_captures / "go/nack.pcap", "--keep-names")
    assert "go-nack" in (folder / "trace.txt").read_text()
    assert "have their real names" in (folder / "README.txt").read_text()


def test_around_a_frame(bundle, pcli, small_captures):
    path = small_captures / "python/01-exclusive-unbatched.pcapng"
    folder = bundle(path, "--around", 80, "--window", 5)
    result = pcli("dissect", "-r", folder / "capture.pcapng", "-T", "fields", "-e", "pulsar.type")
    assert result.lines[0] == "CONNECT"
    assert len(result.lines) < len(pcli("dissect", "-r", path).lines)
    assert "were omitted" in result.err
    assert "around frame 80" in (folder / "README.txt").read_text()


def test_only_connections_that_match(bundle, pcli, small_captures):
    path = small_captures / "flex/04-reconnect.pcapng"
    streams = set(pcli("dissect", "-r", path, "-T", "fields", "-e", "tcp.stream").lines)
    folder = bundle(path, "-Y", f"tcp.stream == {max(streams)}")
    result = pcli("dissect", "-r", folder / "capture.pcapng", "-T", "fields", "-e", "tcp.stream")
    assert len(streams) > 1
    assert set(result.lines) == {"0"}


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_tshark_opens_it(bundle, small_captures):
    path = bundle(small_captures / "python/01-exclusive-unbatched.pcapng") / "capture.pcapng"
    fields = ["-e", "tcp.len", "-e", "tcp.analysis.flags"]
    done = subprocess.run(["tshark", "-r", path, "-T", "fields", *fields], capture_output=True, text=True, check=True)
    lengths = [line.split("\t") for line in done.stdout.splitlines()]
    assert sum(int(size) for size, *_ in lengths) > 1000
    assert not [flags for _, flags in lengths if flags]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--around", 100_000), 2, "the capture has"),
        (("--around", 5, "--window", "soon"), 2, "--window soon"),
        (("--window", 5), 2, "--window requires --around"),
        (("-Y", "pulsar.key == 'nobody'"), 1, "matches the filter"),
        (("-Y", "pulsar.nothing"), 2, "pulsar.nothing"),
    ],
)
def test_errors_are_reported_and_leave_no_file(pcli, small_captures, tmp_path, arguments, code, message):
    result = pcli("bundle", "-r", small_captures / "go/nack.pcap", "-o", tmp_path / "issue.zip", *arguments)
    assert result.code == code
    assert message in result.err
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_written(pcli, small_captures, tmp_path):
    own = tmp_path / "own.pcap"
    shutil.copy(small_captures / "go/nack.pcap", own)
    result = pcli("bundle", "-r", own, "-o", own)
    assert (result.code, "this file is an input of the command" in result.err) == (2, True)
    assert own.read_bytes() == (small_captures / "go/nack.pcap").read_bytes()
    result = pcli("bundle", "-r", own, "-o", tmp_path / "none" / "issue.zip")
    assert (result.code, f"the folder {tmp_path / 'none'} does not exist" in result.err) == (2, True)


def test_a_capture_without_connections(pcli, small_captures, tmp_path):
    empty = tmp_path / "empty.pcap"
    empty.write_bytes((small_captures / "go/nack.pcap").read_bytes()[:24])
    result = pcli("bundle", "-r", empty, "-o", tmp_path / "issue.zip")
    assert (result.code, "nothing to bundle" in result.err) == (1, True)
    assert [one.name for one in tmp_path.iterdir()] == ["empty.pcap"]


def test_a_truncated_capture_is_reported(pcli, small_captures, tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((small_captures / "go/nack.pcap").read_bytes()[:-30])
    result = pcli("bundle", "-r", cut, "-o", tmp_path / "issue.zip")
    assert result.code == 3
    assert "cut" in result.err
    assert zipfile.ZipFile(tmp_path / "issue.zip").testzip() is None
