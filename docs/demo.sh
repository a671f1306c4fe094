#!/usr/bin/env bash
# The main job, end to end: captures of a real broker become readable. Run by `make demo`.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
captures=tests/captures

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

echo "== A conversation of the Java client: a transaction =="
show pcli dissect -r $captures/java/txn-commit.pcap -c 60

echo
echo "== One question: which messages were delivered again, to whom? =="
show pcli dissect -r $captures/python/10-shared-redelivery.pcap \
  -Y 'pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0' \
  -T fields -E header=y -e pulsar.number -e pulsar.consumer_name -e pulsar.message_id

echo
echo "== How long did answers take? =="
show pcli stats latency -r $captures/flex/01-produce-consume.pcap

echo
echo "== Payloads, decoded with the schemas that the capture itself shows =="
show pcli dissect -r $captures/java/schemas.pcap -Y 'pulsar.type == "MESSAGE"' --payload

echo
echo "== A message's life as a sequence diagram =="
show pcli follow -r $captures/go/nack.pcap --message-id "$(pcli dissect -r $captures/go/nack.pcap \
  -Y 'pulsar.message.redelivery_count > 0' -T fields -e pulsar.message_id | head -n 1)" -T mermaid

echo
echo "== A frame by itself: decoded, taken apart, put together again =="
show pcli decode 0000000c00000008080b5a040801100a
show pcli encode FLOW consumer_id=1 messagePermits=10

echo
echo "== A broker of one's own: a real client over the four subscription types, recorded, then dissected =="
talk=$(mktemp -d)
printf '\n$ pcli broker --port 0 --http-port 0 --capture talk.pcapng &\n'
pcli broker --port 0 --http-port 0 --log quiet --capture "$talk/talk.pcapng" --ready-file "$talk/ready.json" &
broker=$!
trap 'kill $broker 2>/dev/null || true; rm -rf "$talk"' EXIT
until [ -e "$talk/ready.json" ]; do
  kill -0 $broker
  sleep 0.05
done
python - "$talk/ready.json" <<'PYTHON'
import json
import sys

import pulsar

with open(sys.argv[1]) as file:
    url = json.load(file)["service_url"]
client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
types = pulsar.ConsumerType
for kind in (types.Exclusive, types.Failover, types.Shared, types.KeyShared):
    consumer = client.subscribe(f"demo-{kind.name}", "work", kind, consumer_name="worker")
    producer = client.create_producer(f"demo-{kind.name}", producer_name=f"maker-{kind.name}")
    for number in range(2):
        producer.send(f"{kind.name} {number}".encode(), partition_key=str(number))
    for _ in range(2):
        message = consumer.receive(10_000)
        consumer.acknowledge(message)
        print(f"{kind.name:<10} received {message.data().decode()!r} with key {message.partition_key()}")
client.close()
PYTHON
kill -TERM $broker
wait $broker
show pcli dissect -r "$talk/talk.pcapng" -Y 'pulsar.type in {"SUBSCRIBE" "FLOW" "SEND" "MESSAGE" "ACK"}'

echo
echo "== Which dispatcher serves what =="
show pcli broker --dispatchers
