#!/usr/bin/env bash
# The dead letter policy of the Python (C++) client moves acknowledged messages to the dead letter topic.
#
# Versions: pulsar-client 3.13.0 (PyPI), Pulsar broker 4.2.4.
#
# A producer sends ten messages in one batch. The application acknowledges nine of them and rejects one, each time that it
# gets it, with max_redeliver_count=1. All ten are copied to the dead letter topic. With batch index acknowledgements the
# application gets only the rejected message again, but the other nine, which were acknowledged and not delivered again,
# are copied too. Without batching only the rejected message is copied.
#
# Output on 2026-11-28:
#   one batch: message-3 rejected, 20 deliveries, 10 dead letters
#   one batch, batch index acknowledgements: message-3 rejected, 11 deliveries, 10 dead letters
#   no batching: message-3 rejected, 11 deliveries, 1 dead letters
source "$(dirname "$0")/support/broker.bash"
start_broker
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q --disable-pip-version-check install pulsar-client==3.13.0
cat > "$work/program.py" <<'PYTHON'
import sys

import pulsar

url, topic, batching, index = sys.argv[1], sys.argv[2], sys.argv[3] == "batch", sys.argv[4] == "index"
client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
letters = client.subscribe(f"{topic}-letters", "check", pulsar.ConsumerType.Shared)
consumer = client.subscribe(
    topic, "audit", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=1000,
    batch_index_ack_enabled=index,
    dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, f"{topic}-letters"),
)
producer = client.create_producer(topic, batching_enabled=batching, batching_max_publish_delay_ms=1000)
for n in range(10):
    producer.send_async(b"message-%d" % n, lambda result, _: None)
producer.flush()
deliveries = 0
try:
    while True:
        message = consumer.receive(8000)
        deliveries += 1
        (consumer.negative_acknowledge if message.data() == b"message-3" else consumer.acknowledge)(message)
except pulsar.Timeout:
    pass
dead = set()
try:
    while True:
        message = letters.receive(3000)
        dead.add(message.data())
        letters.acknowledge(message)
except pulsar.Timeout:
    pass
client.close()
print(f"message-3 rejected, {deliveries} deliveries, {len(dead)} dead letters")
PYTHON
program() { "$work/venv/bin/python" "$work/program.py" "$SERVICE_URL" "$@"; }
expect "one batch" "message-3 rejected, 20 deliveries, 10 dead letters" "$(program batch-plain batch none)"
expect "one batch, batch index acknowledgements" "message-3 rejected, 11 deliveries, 10 dead letters" \
    "$(program batch-index batch index)"
expect "no batching" "message-3 rejected, 11 deliveries, 1 dead letters" "$(program single none none)"
