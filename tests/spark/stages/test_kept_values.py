"""Values that an incremental run keeps: every state is loaded, and a manipulated state runs no code."""

import os
import zlib

import pytest

from pcli.codec.capture.frames import Stream
from pcli.codec.capture.tls.record_cipher import CipherSuite, RecordCipher
from pcli.codec.errors import LocalError
from pcli.codec.observe.tracking.connections.connection_table import ConnectionTable
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.spark.analysis import analyze
from pcli.spark.columnar.observation import observe_group
from pcli.spark.columnar.observation.client_tables import FinalConsumer
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.stages import kept_values
from pcli.spark.stages.kept_states import IncrementalState


class Call:
    """A value that a pickle replaces with the result of a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call

    def __call__(self):
        """Make the object acceptable as a function in a pickle."""


def refuses(value):
    """Whether the state with this value is refused before the value is used."""
    with pytest.raises(LocalError, match=r"^here: .*\(.* is not allowed\)"):
        kept_values.load(kept_values.dump(value), "here")


def test_the_state_of_every_capture_is_loaded(tmp_path, small_captures, monkeypatch):
    """Every state is loaded when it is kept, as by the next run."""
    loaded = []

    dump = kept_values.dump

    def checked(value):
        data = dump(value)
        loaded.append(type(kept_values.load(data, "here")))
        return data

    monkeypatch.setattr(kept_values, "dump", checked)
    names = [path for path in sorted(small_captures.rglob("*")) if path.suffix in (".pcap", ".pcapng")]
    for number, path in enumerate(names):
        keys = path.with_suffix(".keylog")
        secrets = keys.read_bytes() if keys.exists() else b""
        out = tmp_path / str(number)
        request = Request((str(path),), str(out), only=("findings",), incremental=True, key_log=secrets)
        analyze(request, InProcess())
        assert {"Checkpoint", "Group", "IncrementalState"} == {one.__name__ for one in loaded}, path
        loaded.clear()
    assert len(names) > 30


def test_only_methods_of_the_state_are_loaded():
    stream = Stream(0, ("", 0), ("", 0), midstream=False)
    for method in (stream.__init__, IncrementalState({}).__eq__, dict.get, Tracker().finish, Tracker().note):
        refuses(method)
    assert kept_values.load(kept_values.dump(Tracker().see), "here").__func__ is Tracker.see


def item(mapping, name):
    """The item of a dict, read by ConnectionTable.get."""
    table = ConnectionTable.__new__(ConnectionTable)
    table._connections = mapping
    return Call(Call(kept_values._method, table, "get"), name)


class Attributes:
    """A class whose method reads an attribute by its name."""

    def __init__(self, of):
        self.of = of

    def get(self, name):
        return getattr(self.of, name)


def attribute(of, name):
    """The attribute of an object, read by Attributes.get."""
    return Call(Call(kept_values._method, Attributes(of), "get"), name)


def test_methods_with_a_name_as_argument_do_not_give_access_to_the_builtins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function = item(item(attribute(observe_group._all, "__globals__"), "__builtins__"), "eval")
    refuses(Call(function, "open('evil', 'w')"))
    assert not (tmp_path / "evil").exists()
    refuses(item({"name": 1}, "name"))
    refuses(attribute(Stream(0, ("", 0), ("", 0), midstream=False), "server"))


@pytest.mark.parametrize("kind", [FinalConsumer, InProcess, kept_values._RestrictedUnpickler])
def test_classes_that_a_state_does_not_contain_are_refused(kind):
    refuses(kind)


def test_an_unknown_cipher_suite_is_refused():
    """A cipher suite contains the name of a class of cryptography."""
    cipher = RecordCipher.__new__(RecordCipher)
    cipher._suite = CipherSuite("__getattribute__", 16, "SHA256")
    cipher._key = cipher._iv = "AESGCM"
    cipher._tls13, cipher._sequence = True, 0
    with pytest.raises(LocalError, match=r"here: damaged.*unknown cipher suite"):
        kept_values.load(kept_values.dump(cipher), "here")


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


def test_a_manipulated_state_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LocalError, match="here: damaged, or written by a different version"):
        kept_values.load(kept_values.dump(Evil()), "here")
    for data in (b"", b"nonsense", kept_values.dump([1])[:-5]):
        with pytest.raises(LocalError, match="here: damaged"):
            kept_values.load(data, "here")
    assert not (tmp_path / "evil").exists()
    for name in (b"pcli.spark.tables.table_store\nPath", b"pcli.minibroker.storage.sqlite_database\nSqliteDatabase"):
        with pytest.raises(LocalError, match="is not allowed"):
            kept_values.load(zlib.compress(b"c" + name + b"\n(S'evil'\ntR."), "here")
    assert kept_values.load(kept_values.dump({1: (2, b"3", {4})}), "here") == {1: (2, b"3", {4})}
