#!/usr/bin/env bash
# A GET of the backlog quotas of a topic changes the policies of its namespace.
#
# Version: Pulsar broker 4.2.4.
#
# With ?applied=true, GET …/backlogQuotaMap of a topic returns the quotas that apply to it. If the topic and its namespace
# have none, these are the defaults of the broker. The broker adds them to the policies of the namespace that it holds in
# memory: a GET of the namespace's quotas, which returned {} before, then returns both quotas, as if an administrator had
# set them.
#
# Output on 2026-11-28:
#   before: {}
#   applied to the topic: destination_storage message_age
#   after: destination_storage message_age
source "$(dirname "$0")/support/broker.bash"
need python3
start_broker
namespaces=$ADMIN_URL/admin/v2/namespaces/public/quotas
topic=$ADMIN_URL/admin/v2/persistent/public/quotas/orders
curl -sf -X PUT "$namespaces"
curl -sf -X PUT "$topic"
kinds() { python3 -c 'import json, sys; print(*sorted(json.load(sys.stdin)))'; }
expect before '{}' "$(curl -sf "$namespaces/backlogQuotaMap")"
expect "applied to the topic" "destination_storage message_age" "$(curl -sf "$topic/backlogQuotaMap?applied=true" | kinds)"
expect after "destination_storage message_age" "$(curl -sf "$namespaces/backlogQuotaMap" | kinds)"
