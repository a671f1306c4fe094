#!/usr/bin/env bash
# With OpenTelemetry's Java agent, the trace of a message ends at its retry and at its dead letter.
#
# Versions: opentelemetry-javaagent 2.33.1, pulsar-client 4.2.4, Pulsar broker 4.2.4.
#
# The client copies the properties of a message to the message in the retry letter topic or the dead letter topic. The
# agent replaces the copied traceparent with that of a new trace, whose publish span has neither a parent nor a link.
# Nothing in the spans joins the dead letter to the message; only the property ORIGIN_MESSAGE_ID does.
#
# Output on 2026-11-29:
#   orders-audit-RETRY: same trace false, parents 0, links 0
#   orders-audit-DLQ: same trace false, parents 0, links 0
source "$(dirname "$0")/support/broker.bash"
source "$(dirname "$0")/support/java_agent.bash"
start_broker
java_agent
cat > Application.java <<'JAVA'
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;

public class Application {
    public static void main(String[] arguments) throws Exception {
        try (var client = PulsarClient.builder().serviceUrl(arguments[0]).build();
                var letters = client.newConsumer().topic("orders-audit-DLQ").subscriptionName("clerk").subscribe();
                var consumer = client.newConsumer().topic("orders").subscriptionName("audit").enableRetry(true)
                        .subscriptionType(SubscriptionType.Shared)
                        .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(1).build()).subscribe();
                var producer = client.newProducer().topic("orders").create()) {
            producer.send("order".getBytes());
            for (int delivery = 0; delivery < 2; delivery++) {
                consumer.reconsumeLater(consumer.receive(), 1, TimeUnit.SECONDS);
            }
            letters.acknowledge(letters.receive());
        }
    }
}
JAVA
traced Application "$SERVICE_URL" > spans
about() {
    python3 -c '
import json, sys
topic = sys.argv[1]
published = {one["name"].split("/")[-1].split()[0]: one for one in json.load(open("spans")) if one["name"].endswith(" publish")}
one = published[topic]
same = str(one["traceId"] == published["orders"]["traceId"]).lower()
parents, links = int(bool(one.get("parentSpanId"))), len(one.get("links", []))
print(f"same trace {same}, parents {parents}, links {links}")' "$1"
}
expect "orders-audit-RETRY" "same trace false, parents 0, links 0" "$(about orders-audit-RETRY)"
expect "orders-audit-DLQ" "same trace false, parents 0, links 0" "$(about orders-audit-DLQ)"
