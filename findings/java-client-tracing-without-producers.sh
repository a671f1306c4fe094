#!/usr/bin/env bash
# The tracing of the Java client 4.2.4 makes no spans of producers, and messages carry no trace context.
#
# Versions: pulsar-client 4.2.4, OpenTelemetry SDK 1.62.0, Pulsar broker 4.2.4.
#
# enableTracing(true) is documented to trace messages from end to end. Consumers have spans, but each is the root of a
# trace of its own, because a SEND has no span and the message has no traceparent. If the consumer reads several topics,
# which it also does with enableRetry(true), its spans name a destination that does not exist. Version 5.0.1 makes spans
# of producers, but they are also in other traces than those of the consumers.
#
# Output on 2026-11-29:
#   spans: CONSUMER process orders, parent none
#   properties of the message: {}
#   spans with enableRetry(true): CONSUMER process MultiTopicsConsumer-?, parent none
source "$(dirname "$0")/support/broker.bash"
start_broker
pom "$work/app" org.apache.pulsar:pulsar-client:4.2.4 io.opentelemetry:opentelemetry-sdk:1.62.0 \
    io.opentelemetry:opentelemetry-sdk-testing:1.62.0
class_path "$work/app"
cd "$work/app"
cat > Application.java <<'JAVA'
import io.opentelemetry.api.trace.SpanId;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.propagation.ContextPropagators;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;

public class Application {
    public static void main(String[] arguments) throws Exception {
        var spans = InMemorySpanExporter.create();
        var telemetry = OpenTelemetrySdk.builder()
                .setTracerProvider(SdkTracerProvider.builder().addSpanProcessor(SimpleSpanProcessor.create(spans)).build())
                .setPropagators(ContextPropagators.create(W3CTraceContextPropagator.getInstance())).build();
        try (var client = PulsarClient.builder().serviceUrl(arguments[0]).openTelemetry(telemetry).enableTracing(true)
                .build();
                var consumer = client.newConsumer().topic("orders").subscriptionName(arguments[1])
                        .subscriptionType(SubscriptionType.Shared).enableRetry(arguments[1].equals("retry")).subscribe();
                var producer = client.newProducer().topic("orders").create()) {
            producer.send("order".getBytes());
            var message = consumer.receive();
            consumer.acknowledge(message);
            System.out.println("properties " + message.getProperties());
        }
        for (var span : spans.getFinishedSpanItems()) {
            boolean root = span.getParentSpanId().equals(SpanId.getInvalid());
            String name = span.getName().replaceAll("persistent://public/default/", "").replaceAll("-.*", "-?");
            System.out.println("span " + span.getKind() + " " + name + ", parent " + (root ? "none" : "known"));
        }
    }
}
JAVA
javac -proc:none -cp "$(cat class-path)" Application.java 2> log || { tail -n 5 log >&2; exit 2; }
run() { java -cp "$(cat class-path):." Application "$SERVICE_URL" "$1" > "$1" 2> log || { tail -n 5 log >&2; exit 2; }; }
run plain
run retry
expect "spans" "CONSUMER process orders, parent none" "$(sed -n 's/^span //p' plain)"
expect "properties of the message" "{}" "$(sed -n 's/^properties //p' plain)"
expect "spans with enableRetry(true)" "CONSUMER process MultiTopicsConsumer-?, parent none" "$(sed -n 's/^span //p' retry)"
