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
echo "== The mini-broker: a real client over the four subscription types, recorded, then dissected =="
talk=$(mktemp -d)
printf '\n$ pcli broker --port 0 --http-port 0 --capture talk.pcapng &\n'
pcli broker --port 0 --http-port 0 --log quiet --capture "$talk/talk.pcapng" --ready-file "$talk/ready.json" &
broker=$!
proxy=
trap 'kill $broker $proxy 2>/dev/null || true; rm -rf "$talk"' EXIT
PCLI_URL=$(url_of $broker "$talk/ready.json")
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
show pcli dissect -r "$talk/talk.pcapng" -Y 'pulsar.type in {"SUBSCRIBE" "FLOW" "SEND" "MESSAGE" "ACK"}'

echo
echo "== Messages through a pipe, and a proxy in between that cuts the connection at the second SEND =="
printf '\n$ pcli proxy --listen 0 --to %s -w fault.pcapng --fault "close after=1 times=1 on pulsar.type == '"'SEND'"'" &\n' "$PCLI_URL"
pcli proxy --listen 0 --to "$PCLI_URL" --log quiet -w "$talk/fault.pcapng" \
  --fault "close after=1 times=1 on pulsar.type == 'SEND'" > "$talk/proxy.txt" &
proxy=$!
through=$(url_of $proxy "$talk/proxy.txt")
printf '\n$ seq 6 | pcli produce numbers --batch 2 -k key -u %s\n' "$through"
seq 6 | pcli produce numbers --batch 2 -k key -u "$through"
kill -TERM $proxy
wait $proxy
show pcli dissect -r "$talk/fault.pcapng" -Y 'pulsar.type in {"CONNECT" "PRODUCER" "SEND" "SEND_RECEIPT"}'
show pcli consume numbers --reader --from earliest --exit-at-end -f '%i %k %s\n'

kill -TERM $broker
wait $broker

echo
echo "== All that the clients said to the broker, said again to another one: every answer compared =="
show pcli replay "$talk/talk.pcapng"

echo
echo "== Which dispatcher serves what =="
show pcli broker --dispatchers

echo
echo "== What was that with the proxy? The broker's own recording tells: two lives of the same messages, and why =="
show pcli trace -r "$talk/talk.pcapng" --sequence "$(pcli dissect -r "$talk/fault.pcapng" -T fields \
  -Y 'pulsar.type == "PRODUCER_SUCCESS"' -e pulsar.producer_name | head -n 1):0"
show pcli diagnose -r "$talk/talk.pcapng" --only resend-stored

echo
echo "== All of that as tables, by Spark (Java comes along if there is none), and as a page for people =="
show pcli spark-analyze "$talk/talk.pcapng" -o "$talk/tables"
printf '\n$ python  # the tables are Parquet: for Spark, DuckDB, pandas, or as here\n'
python - "$talk/tables" <<'PYTHON'
import sys

from pcli.spark.tables.stored_tables import StoredTables

for row in StoredTables(sys.argv[1]).read("messages", ["topic", "ledger", "entry", "producer", "deliveries", "state"]).to_pylist():
    waited = [(one["acked_ns"] - row["producer"]["sent_ns"]) / 1e6 for one in row["deliveries"] if one["acked_ns"]]
    acked = ", ".join(f"{one:.1f} ms" for one in waited) or "never"
    print(f"{row['ledger']}:{row['entry']} {row['topic'].rsplit('/', 1)[-1]:<16} {row['state']:<8} acknowledged after {acked}")
PYTHON
show pcli report "$talk/tables" -o "$talk/report.html"
printf 'the report: %s bytes of HTML\n' "$(wc -c < "$talk/report.html")"
