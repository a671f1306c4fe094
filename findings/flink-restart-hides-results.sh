#!/usr/bin/env bash
# After one failure, an exactly-once job of Flink's Pulsar connector succeeds, but consumers do not get its results.
#
# Versions: flink-connector-pulsar 4.1.0-1.18, Flink 1.18.1, Pulsar broker 4.2.4.
#
# A job copies 100 messages from one topic to another with DeliveryGuarantee.EXACTLY_ONCE. It fails once, ten messages
# after a checkpoint, restarts from the checkpoint and ends normally; all transactions of the second attempt are
# committed. The transaction of the failed attempt is neither aborted nor reused: it stays OPEN, with a timeout of three
# hours. Consumers get nothing behind its first message until then. (Flink's Kafka sink aborts such transactions when it
# restarts.) Without the failure a consumer gets all 100 messages.
#
# Output on 2026-11-28 (with a failure: those before the first checkpoint, 0 to 40 of 100):
#   without a failure: job finished, all 100 messages visible, 0 transactions open
#   with a failure: job finished, fewer than 100 messages visible, 1 transactions open
source "$(dirname "$0")/support/broker.bash"
start_broker
pom "$work/job" org.apache.flink:flink-connector-pulsar:4.1.0-1.18 org.apache.flink:flink-connector-base:1.18.1 \
    org.apache.flink:flink-clients:1.18.1 org.slf4j:slf4j-nop:1.7.36
class_path "$work/job"
cd "$work/job"
cat > Job.java <<'JAVA'
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.restartstrategy.RestartStrategies;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.pulsar.sink.PulsarSink;
import org.apache.flink.connector.pulsar.source.PulsarSource;
import org.apache.flink.connector.pulsar.source.enumerator.cursor.StartCursor;
import org.apache.flink.connector.pulsar.source.enumerator.cursor.StopCursor;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** Arguments: SERVICE_URL ADMIN_URL NAME FAILURES. */
public final class Job {
    private static final AtomicInteger FAILURES = new AtomicInteger();

    private static final class Copy implements MapFunction<String, String>, CheckpointListener {
        private boolean isCheckpointed;
        private int since;

        @Override
        public String map(String value) throws Exception {
            Thread.sleep(30);
            if (isCheckpointed && ++since == 10 && FAILURES.getAndDecrement() > 0) {
                throw new IllegalStateException("fails once");
            }
            return value;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            isCheckpointed = true;
            since = 0;
        }
    }

    public static void main(String[] arguments) throws Exception {
        String from = "persistent://public/default/" + arguments[2] + "-from";
        String to = "persistent://public/default/" + arguments[2] + "-to";
        FAILURES.set(Integer.parseInt(arguments[3]));
        PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
        try (Producer<byte[]> producer = client.newProducer().topic(from).create()) {
            for (int n = 0; n < 100; n++) {
                producer.send(("message-" + n).getBytes());
            }
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.enableCheckpointing(1000);
        environment.getCheckpointConfig().setMinPauseBetweenCheckpoints(1000);
        environment.setRestartStrategy(RestartStrategies.fixedDelayRestart(3, 100));
        environment.fromSource(
                PulsarSource.builder().setServiceUrl(arguments[0]).setAdminUrl(arguments[1]).setTopics(from)
                        .setSubscriptionName("flink").setStartCursor(StartCursor.earliest())
                        .setBoundedStopCursor(StopCursor.latest())
                        .setDeserializationSchema(new SimpleStringSchema()).build(),
                WatermarkStrategy.noWatermarks(), "source").map(new Copy()).sinkTo(
                PulsarSink.builder().setServiceUrl(arguments[0]).setAdminUrl(arguments[1]).setTopics(to)
                        .setSerializationSchema(new SimpleStringSchema())
                        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE).build());
        environment.execute();
        int visible = 0;
        try (Consumer<byte[]> consumer = client.newConsumer(Schema.BYTES).topic(to).subscriptionName("check")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (Message<byte[]> one; (one = consumer.receive(5, TimeUnit.SECONDS)) != null; visible++) {
                consumer.acknowledge(one);
            }
        }
        client.close();
        System.err.println(visible);
        String amount = visible == 100 ? "all" : visible < 100 ? "fewer than" : "more than";
        System.out.println("job finished, " + amount + " 100 messages visible");
        System.exit(0);
    }
}
JAVA
javac -nowarn -proc:none -cp "$(cat class-path)" Job.java 2> log || { tail -n 5 log >&2; exit 2; }

job() {
    local open
    java --add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED \
        -cp ".:$(cat class-path)" Job "$SERVICE_URL" "$ADMIN_URL" "$1" "$2" 2> "errors-$1" | tr -d '\n'
    open=$(curl -s "$ADMIN_URL/admin/v2/persistent/public/default/$1-to/stats" \
        | python3 -c 'import json, sys; print(json.load(sys.stdin)["ongoingTxnCount"])')
    echo ", $open transactions open"
}
expect "without a failure" "job finished, all 100 messages visible, 0 transactions open" "$(job healthy 0)"
expect "with a failure" "job finished, fewer than 100 messages visible, 1 transactions open" "$(job failing 1)"
