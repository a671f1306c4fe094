"""Frames with the addresses of brokers, rewritten to those of the proxy."""

import json
import re

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_frame
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.replay.proxy.address_rewriting import FROM_BROKER, rewritten_connect, rewritten_lookup, rewritten_response

Lookup = pb.CommandLookupTopicResponse


def answered(proxy_addresses, body):
    """Return the body that the client receives."""
    before = push_frame(body)
    after = rewritten_response(before, proxy_addresses.addresses, proxy_addresses.current)
    return "untouched" if after is before else after


def lookup(response=Lookup.Connect, plain="pulsar://b1:6650", tls="", **fields):
    return Lookup(brokerServiceUrl=plain, brokerServiceUrlTls=tls, response=response, request_id=7, **fields)


def test_all_commands_with_a_url_are_rewritten():
    """Fields in the protocol's description: every broker command with a field of this name is rewritten."""
    command = pb.BaseCommand.DESCRIPTOR
    named = {
        number
        for number, field in command.fields_by_number.items()
        if field.message_type is not None and any(_URL.search(name) for name in field_names(field.message_type))
    }
    assert named - {BY_NAME["CONNECT"].number} == FROM_BROKER


_URL = re.compile("broker_?(service_?)?url$", re.IGNORECASE)


def field_names(message, above=()):
    """Yield the names of the fields of a message and of the messages in it."""
    for field in message.fields:
        yield field.name
        if field.message_type is not None and field.message_type not in above:
            yield from field_names(field.message_type, (*above, message))


@pytest.mark.parametrize("tls", [False, True])
def test_a_layout_contains_no_address_of_a_broker(make_proxy_addresses, tls):
    proxy_addresses = make_proxy_addresses(tls=tls)
    plain, secure = "pulsar://b2:6650", "pulsar+ssl://b2:6651"
    dag = pb.ScalableTopicDAG(epoch=3, controller_broker_url=plain, controller_broker_url_tls=secure)
    dag.segment_brokers.add(segment_id=1, broker_url="pulsar://b1:6650", broker_url_tls="pulsar+ssl://b1:6651")
    dag.segment_brokers.add(segment_id=2, broker_url=plain, broker_url_tls=secure)
    found = answered(proxy_addresses, pb.CommandScalableTopicUpdate(session_id=1, dag=dag))
    assert b"b1:" not in found
    assert b"b2:" not in found
    after = Frame.of(found).command.scalableTopicUpdate.dag
    assert after.epoch == 3
    assert after.segment_brokers[1].broker_url
    field = "controller_broker_url_tls" if tls else "controller_broker_url"
    assert getattr(after, field) == f"pulsar{'+ssl' if tls else ''}://proxy:7001"


def test_the_brokers_of_transaction_coordinators(proxy_addresses):
    body = pb.CommandWatchTcAssignmentsUpdate(watch_id=1)
    body.snapshot.parallelism = 2
    for number in range(2):
        body.snapshot.assignments.add(tc_id=number, broker_service_url=f"pulsar://b{number + 1}:6650")
    after = Frame.of(answered(proxy_addresses, body)).command.watchTcAssignmentsUpdate.snapshot.assignments
    assert [one.broker_service_url for one in after] == ["pulsar://proxy:7000", "pulsar://proxy:7001"]


def test_a_lookup_contains_the_listeners_address(proxy_addresses):
    found = answered(proxy_addresses, lookup(authoritative=True, tls="pulsar+ssl://b1:6651"))
    assert found == push_frame(
        Lookup(brokerServiceUrl="pulsar://proxy:7000", response=Lookup.Connect, request_id=7, authoritative=True)
    )


def test_another_broker_may_be_reached_through_the_listener(proxy_addresses):
    found = answered(proxy_addresses, lookup(plain="pulsar://b2:6650"))
    assert found == push_frame(lookup_expected("pulsar://proxy:7001", proxy_through_service_url=True))


def lookup_expected(url, **fields):
    return Lookup(brokerServiceUrl=url, response=Lookup.Connect, request_id=7, **fields)


def test_a_redirect_contains_the_other_brokers_proxy_address(proxy_addresses):
    """The client looks up again at this address; the frame does not mention a proxy."""
    body = Frame.of(answered(proxy_addresses, lookup(Lookup.Redirect, "pulsar://b2:6650"))).command.lookupTopicResponse
    assert (body.brokerServiceUrl, body.response) == ("pulsar://proxy:7001", Lookup.Redirect)
    assert not body.proxy_through_service_url


def test_tls_urls_are_in_their_own_field(make_proxy_addresses):
    body = Frame.of(answered(make_proxy_addresses(tls=True), lookup())).command.lookupTopicResponse
    assert (body.brokerServiceUrl, body.brokerServiceUrlTls) == ("", "pulsar+ssl://proxy:7000")


@pytest.mark.parametrize(
    "body",
    [
        Lookup(response=Lookup.Failed, request_id=7, error=pb.ServiceNotReady, message="not yet"),
        lookup(plain="pulsar://b2:6650", proxy_through_service_url=True),
        lookup(plain="no url"),
        pb.CommandCloseProducer(producer_id=1, request_id=2),
        pb.CommandTopicMigrated(resource_id=1, resource_type=pb.CommandTopicMigrated.Producer),
    ],
    ids=["failed", "behind a Pulsar proxy", "nonsense", "close", "migrated"],
)
def test_frames_without_an_address_are_unchanged(proxy_addresses, body):
    assert answered(proxy_addresses, body) == "untouched"
    assert proxy_addresses.opened == []


@pytest.mark.parametrize("kind", [pb.CommandCloseProducer, pb.CommandCloseConsumer])
def test_a_close_that_assigns_a_broker(proxy_addresses, kind):
    of = "producer_id" if kind is pb.CommandCloseProducer else "consumer_id"
    ids = {of: 3, "request_id": 4}
    found = answered(
        proxy_addresses,
        kind(assignedBrokerServiceUrl="pulsar://b2:6650", assignedBrokerServiceUrlTls="pulsar+ssl://b2:6651", **ids),
    )
    assert found == push_frame(kind(assignedBrokerServiceUrl="pulsar://proxy:7001", **ids))


def test_a_topic_that_migrated(proxy_addresses):
    fields = {"resource_id": 3, "resource_type": pb.CommandTopicMigrated.Consumer}
    found = answered(proxy_addresses, pb.CommandTopicMigrated(brokerServiceUrl="pulsar://c2:6650,c3:6650", **fields))
    assert found == push_frame(pb.CommandTopicMigrated(brokerServiceUrl="pulsar://proxy:7001", **fields))
    assert proxy_addresses.opened == ["pulsar://c2:6650,c3:6650"]


def test_unknown_fields_are_kept(proxy_addresses):
    command = pb.BaseCommand(type=BY_NAME["LOOKUP_RESPONSE"].number, lookupTopicResponse=lookup())
    future = b"\xf2\x3f\x03new"
    frame = join_frame(command.SerializeToString() + future)
    assert future in rewritten_response(frame, proxy_addresses.addresses, proxy_addresses.current)


def test_a_damaged_frame_is_unchanged(proxy_addresses):
    frame = bytearray(push_frame(lookup()))
    frame[12] = 0xFF
    assert rewritten_response(bytes(frame), proxy_addresses.addresses, proxy_addresses.current) == frame


# -- CONNECT -----------------------------------------------------------------------------------------------------------


def connect(**fields):
    return push_frame(pb.CommandConnect(client_version="c", auth_data=b"secret", original_principal="me", **fields))


def test_a_proxy_address_is_removed_before_the_broker(proxy_addresses):
    broker = proxy_addresses.addresses.find("pulsar://b2:6650", "", proxy_addresses.current)
    proxy_addresses.addresses.url(broker)
    found = rewritten_connect(
        connect(proxy_to_broker_url="proxy:7001"), proxy_addresses.addresses, proxy_addresses.current
    )
    assert found == (connect(), broker)


def test_a_standalone_receives_its_advertised_address(make_proxy_addresses):
    proxy_addresses = make_proxy_addresses(to="127.0.0.1:6650")
    answered(proxy_addresses, lookup(plain="pulsar://localhost:6650", proxy_through_service_url=True))
    found = rewritten_connect(
        connect(proxy_to_broker_url="proxy:7000"), proxy_addresses.addresses, proxy_addresses.current
    )
    assert found == (connect(proxy_to_broker_url="localhost:6650"), proxy_addresses.current)


@pytest.mark.parametrize(
    "frame", [connect(), connect(proxy_to_broker_url="b9:6650"), push_frame(pb.CommandPing())],
    ids=["no name", "a name of others", "no CONNECT"],
)  # fmt: skip
def test_other_first_frames_are_unchanged(proxy_addresses, frame):
    assert rewritten_connect(frame, proxy_addresses.addresses, proxy_addresses.current) == (
        frame,
        proxy_addresses.current,
    )


# -- HTTP --------------------------------------------------------------------------------------------------------------

ANSWER = {
    "brokerUrl": "pulsar://b2:6650",
    "brokerUrlTls": "pulsar+ssl://b2:6651",
    "httpUrl": "http://b2:8080",
    "nativeUrl": "pulsar://b2:6650",
}


def test_an_http_lookup_response_is_rewritten(proxy_addresses):
    found = json.loads(
        rewritten_lookup(json.dumps(ANSWER).encode(), proxy_addresses.addresses, proxy_addresses.current)
    )
    assert found == {
        "brokerUrl": "pulsar://proxy:7001",
        "brokerUrlTls": "",
        "brokerUrlSsl": "",
        "httpUrl": "http://b2:8080",
        "nativeUrl": "pulsar://proxy:7001",
    }


def test_an_http_lookup_response_for_tls_clients_is_rewritten(make_proxy_addresses):
    proxy_addresses = make_proxy_addresses(tls=True)
    found = json.loads(
        rewritten_lookup(json.dumps(ANSWER).encode(), proxy_addresses.addresses, proxy_addresses.current)
    )
    assert (found["brokerUrl"], found["brokerUrlTls"]) == ("", "pulsar+ssl://proxy:7001")


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"[" * 100_000, b"{}", b'{"brokerUrl": "no url"}', b'{"reason": "no"}']
)
def test_other_http_responses_are_unchanged(proxy_addresses, body):
    assert rewritten_lookup(body, proxy_addresses.addresses, proxy_addresses.current) == body
