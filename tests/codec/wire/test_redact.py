"""Secrets are hidden, everything else stays."""

from pcli.codec.proto import pb
from pcli.codec.wire.redact import SECRET_FIELDS, hidden, redact


def test_every_secret_field_exists_and_every_field_that_sounds_secret_is_one():
    fields = {
        f"{message.name}.{field.name}"
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
        if field.name.endswith("auth_data") and field.message_type is None
    }
    assert fields == SECRET_FIELDS


def test_redaction_keeps_lengths_and_goes_inside():
    command = pb.BaseCommand(
        type=pb.BaseCommand.AUTH_RESPONSE,
        authResponse=pb.CommandAuthResponse(
            client_version="x", response=pb.AuthData(auth_method_name="token", auth_data=b"secret")
        ),
    )
    size = command.ByteSize()
    redact(command)
    assert command.authResponse.response.auth_data == b"******"
    assert command.authResponse.response.auth_method_name == "token"
    assert command.ByteSize() == size


def test_a_text_secret_too():
    connect = pb.CommandConnect(client_version="x", auth_data=b"abc", original_auth_data="tökén")
    redact(connect)
    assert (connect.auth_data, connect.original_auth_data) == (b"***", "*" * 7)


def test_hidden_says_the_size_alone():
    assert hidden(b"abc") == "<hidden: 3 bytes>"
    assert hidden("tökén") == "<hidden: 7 bytes>"
