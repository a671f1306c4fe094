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
