"""Service URLs: the broker's address, and the form that is displayed."""

import ssl

import pytest

from pcli.codec.errors import LocalError
from pcli.replay.service_url import Security, ServiceUrl


@pytest.mark.parametrize(
    ("text", "scheme", "hosts"),
    [
        ("pulsar://one:7000", "pulsar", (("one", 7000),)),
        ("pulsar://one", "pulsar", (("one", 6650),)),
        ("pulsar+ssl://one/", "pulsar+ssl", (("one", 6651),)),
        ("http://one", "http", (("one", 80),)),
        ("https://one:8443/", "https", (("one", 8443),)),
        ("one", "pulsar", (("one", 6650),)),
        ("one:7000", "pulsar", (("one", 7000),)),
        ("pulsar://one:1,two,[::1]:3", "pulsar", (("one", 1), ("two", 6650), ("::1", 3))),
    ],
)
def test_a_service_url_names_its_hosts(text, scheme, hosts):
    assert ServiceUrl.parse(text) == ServiceUrl(scheme, hosts)


def test_a_service_url_is_written_with_its_ports():
    assert str(ServiceUrl.parse("pulsar+ssl://one,[::1]:3")) == "pulsar+ssl://one:6651,[::1]:3"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not a service URL"),
        ("kafka://one", "is not a service URL"),
        ("pulsar://", "is not a service URL"),
        ("pulsar://one/two", "is not a service URL"),
        ("pulsar://one:x", "'one:x' is not host:port"),
        ("pulsar://one,,two", "'' is not host:port"),
        ("pulsar://one:65536", "65536 is not a port"),
        ("pulsar://user@one", "the URL of one contains a user"),
    ],
)
def test_what_is_no_service_url_is_said_to_be_none(text, what):
    with pytest.raises(LocalError, match=what):
        ServiceUrl.parse(text)


def test_only_ssl_and_https_speak_tls():
    spoken = {scheme: ServiceUrl.parse(f"{scheme}://one").tls for scheme in ("pulsar", "pulsar+ssl", "http", "https")}
    assert spoken == {"pulsar": False, "pulsar+ssl": True, "http": False, "https": True}


def test_a_token_stands_for_itself_or_in_a_file_that_is_read_each_time(tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")
    from_file = Security(token=f"file:{path}")
    assert (Security(token="abc").data(), from_file.data()) == (b"abc", b"first")
    path.write_text("second")
    assert from_file.data() == b"second"
    path.unlink()
    with pytest.raises(LocalError, match="token: no such file"):
        from_file.data()


def test_a_password_is_sent_as_basic_authentication(tmp_path):
    path = tmp_path / "password"
    path.write_text("admin:123456\n")
    for security in (Security(basic="admin:123456"), Security(basic=f"file:{path}")):
        assert (security.method, security.data()) == ("basic", b"admin:123456")
        assert security.headers() == {"Authorization": "Basic YWRtaW46MTIzNDU2"}
    assert (Security(token="x", basic="a:b").headers(), Security().headers()) == ({"Authorization": "Bearer x"}, {})
    with pytest.raises(LocalError, match="--basic file:/nowhere: no such file"):
        Security(basic="file:/nowhere").data()


def test_the_method_is_what_one_has_to_show():
    assert [Security().method, Security(token="x").method, Security(cert="c", key="k").method] == [
        "none",
        "token",
        "tls",
    ]


def test_certificates_that_are_no_use_are_named(tmp_path):
    path = tmp_path / "trust.pem"
    path.write_text("nothing")
    with pytest.raises(LocalError, match="no usable certificate"):
        Security(trust=str(path)).context()
    with pytest.raises(LocalError, match=r"missing\.pem: no such file"):
        Security(trust=str(tmp_path / "missing.pem")).context()
    with pytest.raises(LocalError, match="two files"):
        Security(cert=str(path)).context()


def test_a_certificate_of_ones_own_is_loaded_and_the_hosts_name_checked(certificate):
    cert, key = certificate
    context = Security(trust=str(cert), cert=str(cert), key=str(key)).context()
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    [trusted] = context.get_ca_certs()
    assert trusted["subject"] == ((("commonName", "pcli test"),),)
