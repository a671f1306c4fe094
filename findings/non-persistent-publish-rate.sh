#!/usr/bin/env bash
# A publish rate has no effect on a non-persistent topic that is loaded, although it is accepted and stored.
#
# Versions: Python pulsar-client 3.13.0, Pulsar broker 4.2.4.
#
# A publish rate of 20 messages per second is set for a namespace while producers are connected. It limits the producer of
# the persistent topic at once, without a reconnection. The producer of the non-persistent topic continues at full speed.
# A non-persistent topic that is loaded after the change obeys the rate: the broker reads the rate at loading only.
#
# Output on 2026-11-28:
#   persistent, loaded before: slow
#   non-persistent, loaded before: fast
#   non-persistent, loaded afterwards: slow
source "$(dirname "$0")/support/broker.bash"
need python3
start_broker
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q --disable-pip-version-check install pulsar-client==3.13.0
cat > "$work/program.py" <<'PYTHON'
import json
import sys
import time
import urllib.request

import pulsar

service_url, namespaces = sys.argv[1:]


def put_rate():
    body = json.dumps({"publishThrottlingRateInMsg": 20, "publishThrottlingRateInByte": -1}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{namespaces}/publishRate", body, headers, method="POST")
    urllib.request.urlopen(request)


def speed(producer):
    began = time.monotonic()
    for number in range(120):
        producer.send(b"%d" % number)
    return "slow" if time.monotonic() - began > 2 else "fast"


client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
loaded = {kind: client.create_producer(f"{kind}://public/rates/early") for kind in ("persistent", "non-persistent")}
for producer in loaded.values():
    producer.send(b"first")
put_rate()
time.sleep(2)
for kind, producer in loaded.items():
    print(speed(producer))
print(speed(client.create_producer("non-persistent://public/rates/late")))
client.close()
PYTHON
curl -sf -X PUT "$ADMIN_URL/admin/v2/namespaces/public/rates"
"$work/venv/bin/python" "$work/program.py" "$SERVICE_URL" "$ADMIN_URL/admin/v2/namespaces/public/rates" > "$work/output"
expect "persistent, loaded before" slow "$(sed -n 1p "$work/output")"
expect "non-persistent, loaded before" fast "$(sed -n 2p "$work/output")"
expect "non-persistent, loaded afterwards" slow "$(sed -n 3p "$work/output")"
