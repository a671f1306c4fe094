"""Settings compared with those of a real broker: the conf file of a standalone, and the values that it reports."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from pcli.codec.errors import LocalError
from pcli.minibroker.ignored_settings import IGNORED
from pcli.minibroker.policies.auto_scale_policy import AutoScalePolicy, setting_of
from pcli.minibroker.policies.policy_table import BY_SETTING
from pcli.minibroker.settings import Settings
from pcli.minibroker.versions import DEFAULT, VERSIONS

SOURCES = Path(__file__).parent.parent.parent / "minibroker"
KNOWN = {row.name: row for row in Settings.describe()}


def test_a_real_file_loads():
    """Lines of a real standalone.conf: supported and unsupported settings, comments, empty values."""
    settings = Settings.from_file(
        """
        ### --- General broker settings --- ###
        metadataStoreUrl=
        brokerServicePort=6651
        # keepAliveIntervalSeconds=5
        dbStorage_rocksDB_numLevels=-1
        maxUnackedMessagesPerConsumer=
        brokerEntryMetadataInterceptors=
        subscriptionTypesEnabled=Exclusive, Shared
        allowAutoTopicCreation=false
        """
    )
    assert settings.brokerServicePort == 6651
    assert settings.keepAliveIntervalSeconds == 30
    assert settings.maxUnackedMessagesPerConsumer == 50000
    assert settings.subscriptionTypesEnabled == ["Exclusive", "Shared"]
    assert settings.allowAutoTopicCreation is False


@pytest.mark.parametrize(
    ("pair", "wrong"),
    [
        ("maxUnackedMessagePerConsumer=5", "near: maxUnackedMessagesPerConsumer"),
        ("maxUnackedMessagesPerConsumer", "must have the form name=value"),
        ("maxUnackedMessagesPerConsumer=many", "must be an integer"),
        ("allowAutoTopicCreation=yes", "true or false"),
        ("backlogQuotaDefaultLimitGB=much", "must be a number"),
        ("backlogQuotaDefaultLimitGB=nan", "must be a number"),
    ],
)
def test_invalid_settings(pair, wrong):
    with pytest.raises(LocalError) as error:
        Settings.from_pairs([pair])
    assert wrong in error.value.text


def test_explicit_settings_override_a_file():
    base = Settings.from_file("maxProducersPerTopic=3\nmaxConsumersPerTopic=4")
    settings = Settings.from_pairs(["maxProducersPerTopic=5"], base)
    assert (settings.maxProducersPerTopic, settings.maxConsumersPerTopic) == (5, 4)
    assert base.maxProducersPerTopic == 3


def test_an_invalid_file():
    with pytest.raises(LocalError, match="must have the form name=value"):
        Settings.from_file("maxProducersPerTopic 3")
    with pytest.raises(LocalError, match="near: maxProducersPerTopic"):
        Settings.from_file("maxProducerPerTopic=3")


def test_no_setting_is_both_implemented_and_ignored():
    assert not IGNORED.keys() & KNOWN.keys()


def test_settings_without_effect_are_accepted_and_named():
    """In pairs and in a file alike; the first five names are listed."""
    pairs = [f"{name}=1" for name in sorted(IGNORED)[:7]]
    settings = Settings.from_pairs([*pairs, "maxProducersPerTopic=5"])
    assert settings.note() == f"settings without effect: {', '.join(sorted(IGNORED)[:5])} and 2 more"
    assert Settings.from_file("\n".join(pairs)).note() == settings.note()
    assert Settings.from_pairs(["zookeeperServers=a"]).note() == "settings without effect: zookeeperServers"
    assert Settings.from_pairs(["maxProducersPerTopic=5"]).note() == ""
    base = Settings.from_file("zookeeperServers=a")
    assert Settings.from_pairs(["bindAddresses="], base).unsupported == {"zookeeperServers": "a", "bindAddresses": ""}
    assert base.unsupported == {"zookeeperServers": "a"}


def test_every_setting_parses_its_shown_value():
    for column, version in enumerate(VERSIONS.values()):
        usual = Settings.of_version(version)
        for row in KNOWN.values():
            shown = row.defaults[column]
            if shown is not None:
                assert Settings.from_pairs([f"{row.name}={shown}"], usual) == usual, row.name
            assert row.text


def test_the_defaults_are_those_of_the_default_version():
    assert Settings.of_version(DEFAULT) == Settings()


@pytest.mark.parametrize(
    ("version", "name", "value"),
    [
        ("4.2.4", "dispatcherMaxReadBatchSize", 100),
        ("5.0.1", "dispatcherMaxReadBatchSize", 500),
        ("4.2.4", "defaultNumberOfNamespaceBundles", 4),
        ("5.0.1", "defaultNumberOfNamespaceBundles", 32),
        ("4.2.4", "scalableTopicsEnabled", False),
        ("5.0.1", "scalableTopicsEnabled", True),
    ],
)
def test_defaults_of_a_version(version, name, value):
    assert getattr(Settings.of_version(VERSIONS[version]), name) == value
    assert getattr(Settings.from_file("maxProducersPerTopic=3", VERSIONS[version]), name) == value


@pytest.mark.parametrize(
    ("version", "name", "value"),
    [
        ("4.2.4", "scalableTopicsEnabled", False),
        ("5.0.1", "subscriptionSharedUseClassicPersistentImplementation", False),
    ],
)
def test_a_setting_of_another_version_has_no_effect(version, name, value):
    settings = Settings.from_pairs([f"{name}=true"], Settings.of_version(VERSIONS[version]))
    assert getattr(settings, name) is value
    assert settings.note() == f"settings without effect: {name}"


def test_every_setting_is_used():
    """A setting that no code reads would be documented without effect."""
    own = ("settings.py", "settings_ignored.py")
    read = set(BY_SETTING) | {setting_of(field.name) for field in fields(AutoScalePolicy)}
    for path in SOURCES.rglob("*.py"):
        if path.name not in own:
            read |= names_read(path.read_text())
    assert KNOWN.keys() - read == set()


def names_read(code):
    """Return the attributes and quoted names in the code, without those in comments and docstrings."""
    nodes = list(ast.walk(ast.parse(code)))
    texts = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    quoted = {node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in texts}
    return attributes | {value for value in quoted if isinstance(value, str)}


def test_a_mention_of_a_setting_is_no_use():
    code = '''"""one"""\nx = settings.two + effective("three")  # four\n"five"'''
    assert names_read(code) & {"one", "two", "three", "four", "five"} == {"two", "three"}
