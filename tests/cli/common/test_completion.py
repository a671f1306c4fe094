"""Shell completion."""

from types import SimpleNamespace

from pcli.cli.common import completion


def arguments(found):
    return [word for word, _ in found]


def test_rules_fields_and_settings():
    assert "never-acked" in arguments(completion.complete_rule("never"))
    assert arguments(completion.complete_severity_or_rule("err")) == ["error"]
    assert "pulsar.message_id" in arguments(completion.complete_field("pulsar.mess"))
    assert "brokerServicePort=" in arguments(completion.complete_setting("brokerS"))
    assert "streamingDispatch=true" in arguments(completion.complete_setting("streamingD"))


def test_filters_and_topics_of_a_capture(small_captures):
    context = SimpleNamespace(params={"read": [str(small_captures / "go" / "nack.pcap")]})
    assert "go-nack" in arguments(completion.complete_topic(context, "go"))
    assert "pulsar.topic == 'go-nack'" in arguments(completion.complete_filter(context, "pulsar.topic == go"))
    assert "x and pulsar.topic" in arguments(completion.complete_filter(context, "x and pulsar.top"))
    assert arguments(completion.complete_object(context, "nac")) == ["nacks"]
    assert completion.complete_topic(SimpleNamespace(params={"read": ["/nowhere"]}), "") == []
