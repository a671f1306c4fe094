#!/usr/bin/env bash
# The main job, end to end: dissect captures of a real broker, run the mini-broker for real clients, and replay their
# traffic. `make demo` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
captures=tests/captures

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

# Print the URL that the pcli command with process id $1 writes to the file $2 once it accepts connections.
url_of() {
  until grep -m 1 -o 'pulsar://[^" ]*' "$2" 2>/dev/null; do
    kill -0 "$1"
    sleep 0.05
  done
}

echo "== A transaction of the Java client =="
show pcli dissect -r $captures/java/txn-commit.pcap -c 60

echo
echo "== Redelivered messages and their consumers =="
show pcli dissect -r $captures/python/10-shared-redelivery.pcap \
  -Y 'pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0' \
  -T fields -E header=y -e pulsar.number -e pulsar.consumer_name -e pulsar.message_id

echo
echo "== Response times =="
show pcli stats latency -r $captures/flex/01-produce-consume.pcap

echo
echo "== Payloads, decoded with the schemas in the capture =="
show pcli dissect -r $captures/java/schemas.pcap -Y 'pulsar.type == "MESSAGE"' --payload

echo
echo "== The lifecycle of a message as a sequence diagram =="
show pcli follow -r $captures/go/nack.pcap --message-id "$(pcli dissect -r $captures/go/nack.pcap \
  -Y 'pulsar.message.redelivery_count > 0' -T fields -e pulsar.message_id | head -n 1)" -T mermaid

echo
echo "== A single frame, decoded and encoded =="
show pcli decode 0000000c00000008080b5a040801100a
show pcli encode FLOW consumer_id=1 messagePermits=10

echo
echo "== The mini-broker with a Python client and all four subscription types: captured, then dissected =="
folder=$(mktemp -d)
printf '\n$ pcli broker --port 0 --http-port 0 --capture capture.pcapng &\n'
pcli broker --port 0 --http-port 0 --log quiet --capture "$folder/capture.pcapng" --ready-file "$folder/ready.json" &
broker=$!
proxy=
trap 'kill $broker $proxy 2>/dev/null || true; rm -rf "$folder"' EXIT
PCLI_URL=$(url_of $broker "$folder/ready.json")
export PCLI_URL
python - <<'PYTHON'
import os

import pulsar

client = pulsar.Client(os.environ["PCLI_URL"], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
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
show pcli dissect -r "$folder/capture.pcapng" -Y 'pulsar.type in {"SUBSCRIBE" "FLOW" "SEND" "MESSAGE" "ACK"}'

echo
echo "== Messages from a pipe, through a proxy that closes the connection at the second SEND =="
printf '\n$ pcli proxy --listen 0 --to %s -w fault.pcapng --fault "close after=1 times=1 on pulsar.type == '"'SEND'"'" &\n' "$PCLI_URL"
pcli proxy --listen 0 --to "$PCLI_URL" --log quiet -w "$folder/fault.pcapng" \
  --fault "close after=1 times=1 on pulsar.type == 'SEND'" > "$folder/proxy.txt" &
proxy=$!
through=$(url_of $proxy "$folder/proxy.txt")
printf '\n$ seq 6 | pcli produce numbers --batch 2 -k key -u %s\n' "$through"
seq 6 | pcli produce numbers --batch 2 -k key -u "$through"
kill -TERM $proxy
wait $proxy
show pcli dissect -r "$folder/fault.pcapng" -Y 'pulsar.type in {"CONNECT" "PRODUCER" "SEND" "SEND_RECEIPT"}'
show pcli consume numbers --reader --from earliest --exit-at-end --format '%i %k %s\n'

kill -TERM $broker
wait $broker

echo
echo "== The commands of the clients, replayed against another broker, with every response compared =="
show pcli replay "$folder/capture.pcapng"

echo
echo "== The dispatchers of the mini-broker =="
show pcli broker --dispatchers

echo
echo "== The effect of the proxy's fault in the broker's capture: messages that were stored twice =="
show pcli trace -r "$folder/capture.pcapng" --sequence "$(pcli dissect -r "$folder/fault.pcapng" -T fields \
  -Y 'pulsar.type == "PRODUCER_SUCCESS"' -e pulsar.producer_name | head -n 1):0"
show pcli diagnose -r "$folder/capture.pcapng" --only resend-stored

echo
echo "== The capture as tables, created with Spark, and as an HTML report =="
show pcli spark-analyze "$folder/capture.pcapng" -o "$folder/tables"
printf '\n$ python  # the tables are Delta Lake tables for Spark, DuckDB, Polars or pandas\n'
python - "$folder/tables" <<'PYTHON'
import sys

from pcli.spark.tables.stored_tables import StoredTables

for row in StoredTables(sys.argv[1]).read("messages", ["topic", "ledger", "entry", "producer", "deliveries", "state"]).to_pylist():
    times = [(delivery["acked_ns"] - row["producer"]["sent_ns"]) / 1e6 for delivery in row["deliveries"] if delivery["acked_ns"]]
    acked = ", ".join(f"{time:.1f} ms" for time in times) or "never"
    print(f"{row['ledger']}:{row['entry']} {row['topic'].rsplit('/', 1)[-1]:<16} {row['state']:<8} acknowledged after {acked}")
PYTHON
show pcli report "$folder/tables" -o "$folder/report.html"
printf 'the report: %s bytes of HTML\n' "$(wc -c < "$folder/report.html")"
