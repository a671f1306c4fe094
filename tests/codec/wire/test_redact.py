"""Secrets are hidden, and nothing else is."""

from pcli.codec.proto import pb
from pcli.codec.wire.redact import SECRET_FIELDS, hidden, secret_values


def test_secret_fields_exist_and_include_all_credential_names():
    fields = {
        f"{message.name}.{field.name}"
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
        if field.name.endswith("auth_data") and field.message_type is None
    }
    assert fields == SECRET_FIELDS


def test_exactly_the_secrets_in_messages_are_found():
    command = pb.BaseCommand(
        type=pb.BaseCommand.AUTH_RESPONSE,
        authResponse=pb.CommandAuthResponse(
            client_version="x", response=pb.AuthData(auth_method_name="token", auth_data=b"secret")
        ),
    )
    assert list(secret_values(command)) == [b"secret"]


def test_a_secret_text_is_hidden():
    connect = pb.CommandConnect(client_version="x", auth_data=b"abc", original_auth_data="tökén")
    assert list(secret_values(connect)) == [b"abc", "tökén".encode()]


def test_the_replacement_contains_only_the_size():
    assert hidden(b"abc") == "<hidden: 3 bytes>"
    assert hidden("tökén") == "<hidden: 7 bytes>"
