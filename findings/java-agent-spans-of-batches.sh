#!/usr/bin/env bash
# With OpenTelemetry's Java agent, only the first message of a batch has a publish span.
#
# Versions: opentelemetry-javaagent 2.33.1, pulsar-client 4.2.4, Pulsar broker 4.2.4.
#
# Each message carries the traceparent of a publish span of its own. If the producer batches, which is its default, the
# agent exports the span of the first message of each batch and never those of the others. The receive spans of the
# others are children of spans that no backend has. Without batching, all publish spans are exported.
#
# Output on 2026-11-29:
#   without batching: 10 messages, 10 publish spans, 0 receive spans without their parent
#   with one batch: 10 messages, 1 publish spans, 9 receive spans without their parent
source "$(dirname "$0")/support/broker.bash"
source "$(dirname "$0")/support/java_agent.bash"
start_broker
java_agent
cat > Application.java <<'JAVA'
import java.util.ArrayList;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;

public class Application {
    public static void main(String[] arguments) throws Exception {
        boolean batching = Boolean.parseBoolean(arguments[1]);
        String topic = "orders-" + batching;
        try (var client = PulsarClient.builder().serviceUrl(arguments[0]).build();
                var consumer = client.newConsumer().topic(topic).subscriptionName("audit").subscribe();
                var producer = client.newProducer().topic(topic).enableBatching(batching).batchingMaxMessages(10)
                        .batchingMaxPublishDelay(10, TimeUnit.SECONDS).create()) {
            var sends = new ArrayList<CompletableFuture<MessageId>>();
            for (int number = 0; number < 10; number++) {
                sends.add(producer.sendAsync(("order " + number).getBytes()));
            }
            CompletableFuture.allOf(sends.toArray(new CompletableFuture[0])).get();
            for (int number = 0; number < 10; number++) {
                consumer.acknowledge(consumer.receive());
            }
        }
    }
}
JAVA
counts() {
    traced Application "$SERVICE_URL" "$1" | python3 -c '
import json, sys
spans = json.load(sys.stdin)
published = {one["spanId"] for one in spans if one["name"].endswith(" publish")}
received = [one for one in spans if one["name"].endswith(" receive")]
lost = sum(one["parentSpanId"] not in published for one in received)
print(f"{len(received)} messages, {len(published)} publish spans, {lost} receive spans without their parent")'
}
expect "without batching" "10 messages, 10 publish spans, 0 receive spans without their parent" "$(counts false)"
expect "with one batch" "10 messages, 1 publish spans, 9 receive spans without their parent" "$(counts true)"
