import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.HashingScheme;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageRoutingMode;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TableView;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/** Scenarios of the Java client. The conversation on stdin and stdout, and what a scenario does: see README.md. */
public final class Interop {
    private static final int WAIT_SECONDS = 10;
    private static final int QUIET_MS = 200;
    private static final Gson GSON = new Gson();
    private static final BufferedReader IN =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static final Map<String, Scenario> SCENARIOS = new TreeMap<>();

    static {
        SCENARIOS.put("exchange", Interop::exchange);
        SCENARIOS.put("failover", Interop::failover);
        SCENARIOS.put("shared", Interop::shared);
        SCENARIOS.put("nack", Interop::nack);
        SCENARIOS.put("ack_timeout", Interop::ackTimeout);
        SCENARIOS.put("key_shared", Interop::keyShared);
        SCENARIOS.put("sticky", Interop::sticky);
        SCENARIOS.put("key_range_reader", Interop::keyRangeReader);
        SCENARIOS.put("chunks", Interop::chunks);
        SCENARIOS.put("schema", Interop::schema);
        SCENARIOS.put("seek", Interop::seek);
        SCENARIOS.put("reader", Interop::reader);
        SCENARIOS.put("table_view", Interop::tableView);
        SCENARIOS.put("dead_letter", Interop::deadLetter);
        SCENARIOS.put("retry_letter", Interop::retryLetter);
        SCENARIOS.put("delayed", Interop::delayed);
        SCENARIOS.put("cumulative", Interop::cumulative);
        SCENARIOS.put("batch_index", Interop::batchIndex);
        SCENARIOS.put("receipts", Interop::receipts);
        SCENARIOS.put("unsubscribe", Interop::unsubscribe);
        SCENARIOS.put("zero_queue", Interop::zeroQueue);
        SCENARIOS.put("partitions", Interop::partitions);
        SCENARIOS.put("topics", Interop::topics);
        SCENARIOS.put("pattern", Interop::pattern);
        SCENARIOS.put("deduplicate", Interop::deduplicate);
        SCENARIOS.put("access_modes", Interop::accessModes);
        SCENARIOS.put("fencing", Interop::fencing);
        SCENARIOS.put("reconnect", Interop::reconnect);
        SCENARIOS.put("end_of_topic", Interop::endOfTopic);
        SCENARIOS.put("habits", Interop::habits);
    }

    private final PulsarClient client;
    private final JsonObject args;
    private final String topic;

    private Interop(PulsarClient client, JsonObject args) {
        this.client = client;
        this.args = args;
        this.topic = text("topic", "orders");
    }

    public static void main(String[] words) throws Exception {
        for (String word : words) {
            run(word);
        }
        String line;
        while (words.length == 0 && (line = IN.readLine()) != null) {
            run(line);
        }
        System.exit(0);
    }

    private static void run(String line) {
        JsonObject args = GSON.fromJson(line, JsonObject.class);
        String name = args.get("scenario").getAsString();
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("scenario", name);
        if (name.equals("list")) {
            answer.put("saw", SCENARIOS.keySet());
            OUT.println(GSON.toJson(answer));
            return;
        }
        try {
            PulsarClient client = PulsarClient.builder().serviceUrl(args.get("url").getAsString())
                    .operationTimeout(WAIT_SECONDS, TimeUnit.SECONDS)
                    .startingBackoffInterval(50, TimeUnit.MILLISECONDS).build();
            try {
                answer.put("saw", SCENARIOS.get(name).play(new Interop(client, args)));
            } finally {
                client.closeAsync(); // its threads take two seconds to end, which nobody need wait for
            }
        } catch (Throwable failure) {
            answer.put("failed", failure.toString() + " at " + List.of(failure.getStackTrace()));
        }
        OUT.println(GSON.toJson(answer));
    }

    // -- scenarios

    private Object exchange() throws Exception {
        try (Consumer<byte[]> consumer = consumer("work").subscriptionType(type()).subscribe();
                Producer<byte[]> producer = producer().create()) {
            please("look");
            for (int n = 0; n < count(20); n++) {
                whole(producer, n).sendAsync();
            }
            producer.flush();
            List<Object> received = new ArrayList<>();
            for (int n = 0; n < count(20); n++) {
                Message<byte[]> message = take(consumer);
                consumer.acknowledge(message);
                received.add(record(message));
            }
            return Map.of("received", received);
        }
    }

    private Object failover() throws Exception {
        Map<String, Object> saw = new LinkedHashMap<>();
        try (Consumer<byte[]> second = consumer("work").subscriptionType(SubscriptionType.Failover)
                        .consumerName("c2").priorityLevel(1).subscribe();
                Consumer<byte[]> first = consumer("work").subscriptionType(SubscriptionType.Failover)
                        .consumerName("c1").priorityLevel(0).subscribe();
                Producer<byte[]> producer = producer().create()) {
            send(producer, 0, 5);
            saw.put("c1", takeAll(first, 5));
            saw.put("c2 meanwhile", rest(second));
            first.close();
            send(producer, 5, 10);
            saw.put("c2", takeAll(second, 5));
        }
        return saw;
    }

    private Object shared() throws Exception {
        try (Consumer<byte[]> first = consumer("work").subscriptionType(SubscriptionType.Shared).subscribe();
                Consumer<byte[]> second = consumer("work").subscriptionType(SubscriptionType.Shared).subscribe();
                Producer<byte[]> producer = producer().create()) {
            send(producer, 0, 20);
            return deal(Map.of("c1", first, "c2", second), 20);
        }
    }

    private Object nack() throws Exception {
        try (Consumer<byte[]> consumer = consumer("work").subscriptionType(SubscriptionType.Shared)
                        .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe();
                Producer<byte[]> producer = producer().create()) {
            send(producer, 0, 3);
            List<Object> received = new ArrayList<>();
            for (int n = 0; n < 4; n++) {
                Message<byte[]> message = take(consumer);
                if (data(message).equals("message-1") && message.getRedeliveryCount() == 0) {
                    consumer.negativeAcknowledge(message);
                } else {
                    consumer.acknowledge(message);
                }
                received.add(List.of(data(message), message.getRedeliveryCount()));
            }
            return Map.of("received", received);
        }
    }

    private Object habits() throws Exception {
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("work")
                        .subscriptionType(SubscriptionType.Shared).subscribe();
                Producer<byte[]> producer = client.newProducer().topic(topic).create();
                Producer<byte[]> batch = client.newProducer().topic(topic)
                        .batchingMaxPublishDelay(1, TimeUnit.SECONDS).create()) {
            for (int n = 0; n < 1200; n++) {
                producer.sendAsync(payload(n));
            }
            producer.flush();
            for (int n = 0; n < 1200; n++) {
                consumer.acknowledge(take(consumer));
            }
            for (int n = 0; n < 10; n++) {
                batch.sendAsync(payload(n));
            }
            batch.flush();
            for (int n = 0; n < 10; n++) {
                Message<byte[]> message = take(consumer);
                if (n < 4) {
                    consumer.acknowledge(message);
                } else if (n < 7) {
                    consumer.negativeAcknowledge(message);
                }
            }
            please("idle");
            return Map.of();
        }
    }

    private Object ackTimeout() throws Exception {
        try (Consumer<byte[]> consumer = consumer("work").subscriptionType(SubscriptionType.Shared)
                        .ackTimeout(1, TimeUnit.SECONDS).ackTimeoutTickTime(100, TimeUnit.MILLISECONDS).subscribe();
                Producer<byte[]> producer = producer().create()) {
            send(producer, 0, 1);
            int before = take(consumer).getRedeliveryCount();
            Message<byte[]> again = take(consumer);
            consumer.acknowledge(again);
            return Map.of("redeliveries", List.of(before, again.getRedeliveryCount()));
        }
    }

    private Object keyShared() throws Exception {
        try (Consumer<byte[]> first = consumer("work").subscriptionType(SubscriptionType.Key_Shared).subscribe();
                Consumer<byte[]> second = consumer("work").subscriptionType(SubscriptionType.Key_Shared).subscribe();
                Producer<byte[]> producer = producer().create()) {
            sendKeyed(producer, 40);
            return deal(Map.of("c1", first, "c2", second), 40);
        }
    }

    private Object sticky() throws Exception {
        Map<String, Object> saw = new LinkedHashMap<>();
        try (Consumer<byte[]> low = stickyConsumer(0, 32767).subscribe();
                Consumer<byte[]> high = stickyConsumer(32768, 65535).subscribe();
                Producer<byte[]> producer = producer().create()) {
            saw.put("refused", refusal(() -> stickyConsumer(30000, 40000).subscribe()));
            sendKeyed(producer, 40);
            saw.putAll(deal(Map.of("low", low, "high", high), 40));
        }
        return saw;
    }

    private Object keyRangeReader() throws Exception {
        try (Producer<byte[]> producer = producer().create()) {
            sendKeyed(producer, 40);
        }
        Map<String, Object> saw = new LinkedHashMap<>();
        for (Range range : List.of(Range.of(0, 32767), Range.of(32768, 65535))) {
            List<String> read = new ArrayList<>();
            try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest)
                    .keyHashRange(range).create()) {
                Message<byte[]> message = reader.readNext(WAIT_SECONDS, TimeUnit.SECONDS);
                for (; message != null; message = reader.readNext(QUIET_MS, TimeUnit.MILLISECONDS)) {
                    read.add(message.getKey() + "=" + data(message));
                }
            }
            saw.put(range.getStart() == 0 ? "low" : "high", read);
        }
        return saw;
    }

    private Object chunks() throws Exception {
        byte[] large = new byte[count(100_000)];
        for (int n = 0; n < large.length; n++) {
            large[n] = (byte) (n * 7 + n / 256);
        }
        try (Consumer<byte[]> consumer = consumer("work").subscribe();
                Producer<byte[]> producer = client.newProducer().topic(topic).enableChunking(true)
                        .enableBatching(false).create()) {
            producer.send("before".getBytes());
            producer.send(large);
            producer.send("after".getBytes());
            List<Object> received = new ArrayList<>();
            for (int n = 0; n < 3; n++) {
                Message<byte[]> message = take(consumer);
                consumer.acknowledge(message);
                received.add(List.of(message.size(), sha1(message.getData())));
            }
            return Map.of("received", received, "sent", List.of(large.length, sha1(large)));
        }
    }

    private Object schema() throws Exception {
        switch (text("kind", "string")) {
            case "string":
                return typed(Schema.STRING, "eins", Schema.INT64);
            case "json":
                return typed(Schema.JSON(User.class), new User("Ada", 36), Schema.STRING);
            default:
                return typed(Schema.AVRO(User.class), new User("Ada", 36), Schema.STRING);
        }
    }

    private <T> Object typed(Schema<T> schema, T value, Schema<?> other) throws Exception {
        try (Consumer<T> consumer = client.newConsumer(schema).topic(topic).subscriptionName("work").subscribe();
                Producer<T> producer = client.newProducer(schema).topic(topic).create()) {
            producer.send(value);
            Message<T> message = consumer.receive(WAIT_SECONDS, TimeUnit.SECONDS);
            consumer.acknowledge(message);
            String refused = refusal(() -> client.newProducer(other).topic(topic).create());
            return Map.of("value", message.getValue(), "refused", refused);
        }
    }

    private Object seek() throws Exception {
        Map<String, Object> saw = new LinkedHashMap<>();
        try (Consumer<byte[]> consumer = consumer("work").subscribe(); Producer<byte[]> producer = producer().create()) {
            for (int n = 0; n < 10; n++) {
                whole(producer, n).send();
                Thread.sleep(5);
            }
            List<Message<byte[]>> all = new ArrayList<>();
            for (int n = 0; n < 10; n++) {
                all.add(take(consumer));
            }
            consumer.acknowledgeCumulative(all.get(9));
            consumer.seek(all.get(4).getMessageId());
            saw.put("by_id", takeUntil(consumer, "message-9"));
            consumer.seek(all.get(7).getPublishTime());
            saw.put("by_time", takeUntil(consumer, "message-9"));
            consumer.seek(MessageId.earliest);
            saw.put("earliest", takeUntil(consumer, "message-9"));
        }
        return saw;
    }

    private Object reader() throws Exception {
        Map<String, Object> saw = new LinkedHashMap<>();
        try (Producer<byte[]> producer = producer().create();
                Reader<byte[]> latest = client.newReader().topic(topic).startMessageId(MessageId.latest).create()) {
            List<MessageId> ids = new ArrayList<>();
            saw.put("available in nothing", latest.hasMessageAvailable());
            for (int n = 0; n < 5; n++) {
                ids.add(whole(producer, n).send());
            }
            saw.put("latest", readAll(latest));
            try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest).create()) {
                saw.put("earliest", readAll(reader));
                saw.put("available at the end", reader.hasMessageAvailable());
                reader.seek(ids.get(2));
                saw.put("sought", readAll(reader));
            }
            try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(ids.get(2)).create()) {
                saw.put("after an id", readAll(reader));
            }
            try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(ids.get(2))
                    .startMessageIdInclusive().create()) {
                saw.put("from an id", readAll(reader));
            }
        }
        return saw;
    }

    private Object tableView() throws Exception {
        try (Producer<byte[]> producer = producer().create()) {
            sendKeyed(producer, 20);
            try (TableView<byte[]> view = client.newTableView().topic(topic).create()) {
                producer.newMessage().key("k0").value("changed".getBytes()).send();
                CompletableFuture<Void> changed = new CompletableFuture<>();
                view.forEachAndListen((key, value) -> {
                    if (new String(value).equals("changed")) {
                        changed.complete(null);
                    }
                });
                changed.get(WAIT_SECONDS, TimeUnit.SECONDS);
                Map<String, String> rows = new TreeMap<>();
                view.forEach((key, value) -> rows.put(key, new String(value)));
                return Map.of("rows", rows);
            }
        }
    }

    private Object deadLetter() throws Exception {
        DeadLetterPolicy policy = DeadLetterPolicy.builder().maxRedeliverCount(2).deadLetterTopic("dead")
                .initialSubscriptionName("undertaker").build();
        List<String> deliveries = new ArrayList<>();
        try (Consumer<byte[]> consumer = consumer("work").subscriptionType(SubscriptionType.Shared)
                        .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS).deadLetterPolicy(policy).subscribe();
                Producer<byte[]> producer = producer().create()) {
            producer.send("poison".getBytes());
            producer.send("good".getBytes());
            while (deliveries.size() < 4) {
                Message<byte[]> message = take(consumer);
                deliveries.add(data(message) + " " + message.getRedeliveryCount());
                if (data(message).equals("good")) {
                    consumer.acknowledge(message);
                } else {
                    consumer.negativeAcknowledge(message);
                }
            }
            try (Consumer<byte[]> dead = client.newConsumer().topic("dead").subscriptionName("undertaker").subscribe()) {
                Message<byte[]> message = null;
                // The consumer moves a message when it comes once more, which somebody must ask for.
                for (int n = 0; n < 50 && message == null; n++) {
                    consumer.receive(20, TimeUnit.MILLISECONDS);
                    message = dead.receive(QUIET_MS, TimeUnit.MILLISECONDS);
                }
                dead.acknowledge(message);
                return Map.of("deliveries", deliveries, "dead", record(message));
            }
        }
    }

    private Object retryLetter() throws Exception {
        DeadLetterPolicy policy = DeadLetterPolicy.builder().maxRedeliverCount(2).retryLetterTopic("again")
                .deadLetterTopic("dead").initialSubscriptionName("undertaker").build();
        List<String> deliveries = new ArrayList<>();
        try (Consumer<byte[]> consumer = consumer("work").subscriptionType(SubscriptionType.Shared).enableRetry(true)
                        .deadLetterPolicy(policy).subscribe();
                Producer<byte[]> producer = producer().create()) {
            producer.send("poison".getBytes());
            for (int n = 0; n < 3; n++) {
                Message<byte[]> message = take(consumer);
                deliveries.add(message.getProperties().getOrDefault("RECONSUMETIMES", "0"));
                consumer.reconsumeLater(message, 100, TimeUnit.MILLISECONDS);
            }
            try (Consumer<byte[]> dead = client.newConsumer().topic("dead").subscriptionName("undertaker").subscribe()) {
                return Map.of("deliveries", deliveries, "dead", data(take(dead)));
            }
        }
    }

    private Object delayed() throws Exception {
        List<String> received = new ArrayList<>();
        try (Consumer<byte[]> consumer = consumer("work").subscriptionType(SubscriptionType.Shared).subscribe();
                Producer<byte[]> producer = producer().create()) {
            producer.newMessage().value("later".getBytes()).deliverAfter(1, TimeUnit.HOURS).send();
            producer.newMessage().value("at once".getBytes()).send();
            received.addAll(takeAll(consumer, 1));
            received.addAll(rest(consumer));
            please("advance");
            received.addAll(takeAll(consumer, 1));
        }
        return Map.of("received", received);
    }

    private Object cumulative() throws Exception {
        try (Producer<byte[]> producer = producer().create()) {
            try (Consumer<byte[]> consumer = consumer("work").subscribe()) {
                send(producer, 0, 10);
                for (int n = 0; n < 10; n++) {
                    Message<byte[]> message = take(consumer);
                    if (n == 5) {
                        consumer.acknowledgeCumulative(message);
                    }
                }
            }
            try (Consumer<byte[]> consumer = consumer("work").subscribe()) {
                return Map.of("again", takeUntil(consumer, "message-9"));
            }
        }
    }

    private Object batchIndex() throws Exception {
        try (Producer<byte[]> producer = client.newProducer().topic(topic).batchingMaxMessages(10)
                .batchingMaxPublishDelay(1, TimeUnit.SECONDS).create()) {
            try (Consumer<byte[]> consumer = consumer("work").enableBatchIndexAcknowledgment(true).subscribe()) {
                for (int n = 0; n < 10; n++) {
                    whole(producer, n).sendAsync();
                }
                producer.flush();
                for (int n = 0; n < 10; n++) {
                    Message<byte[]> message = take(consumer);
                    if (n == 0 || n == 2 || n == 4) {
                        consumer.acknowledge(message);
                    }
                }
            }
            please("look");
            try (Consumer<byte[]> consumer = consumer("work").enableBatchIndexAcknowledgment(true).subscribe()) {
                return Map.of("again", takeUntil(consumer, "message-9"));
            }
        }
    }

    private Object receipts() throws Exception {
        try (Consumer<byte[]> consumer = consumer("work").subscriptionType(SubscriptionType.Shared)
                        .isAckReceiptEnabled(true).acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS).subscribe();
                Producer<byte[]> producer = producer().create()) {
            send(producer, 0, 3);
            int acked = 0;
            for (; acked < 3; acked++) {
                consumer.acknowledgeAsync(take(consumer)).get(WAIT_SECONDS, TimeUnit.SECONDS);
            }
            please("look");
            return Map.of("acked", acked);
        }
    }

    private Object unsubscribe() throws Exception {
        try (Consumer<byte[]> consumer = consumer("work").subscribe()) {
            please("look");
            consumer.unsubscribe();
            return Map.of();
        }
    }

    private Object zeroQueue() throws Exception {
        try (Consumer<byte[]> consumer = consumer("work").subscriptionType(SubscriptionType.Shared)
                        .receiverQueueSize(0).subscribe();
                Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
            send(producer, 0, 3);
            please("look");
            List<String> received = new ArrayList<>();
            while (received.size() < 3) {
                Message<byte[]> message = consumer.receiveAsync().get(WAIT_SECONDS, TimeUnit.SECONDS);
                consumer.acknowledge(message);
                received.add(data(message));
            }
            return Map.of("received", received);
        }
    }

    private Object partitions() throws Exception {
        try (Consumer<byte[]> consumer = consumer("work").subscribe();
                Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false)
                        .messageRoutingMode(MessageRoutingMode.RoundRobinPartition).create()) {
            send(producer, 0, 9);
            sendKeyed(producer, 20);
            List<Object> received = new ArrayList<>();
            for (int n = 0; n < 29; n++) {
                Message<byte[]> message = take(consumer);
                consumer.acknowledge(message);
                String name = message.getTopicName();
                String key = message.hasKey() ? message.getKey() : "";
                received.add(List.of(name.substring(name.lastIndexOf('-') + 1), key, data(message)));
            }
            return Map.of("received", received);
        }
    }

    private Object topics() throws Exception {
        try (Consumer<byte[]> consumer = client.newConsumer().topics(List.of("a", "b")).subscriptionName("work")
                        .subscribe();
                Producer<byte[]> a = client.newProducer().topic("a").create();
                Producer<byte[]> b = client.newProducer().topic("b").create()) {
            send(a, 0, 5);
            send(b, 5, 10);
            return Map.of("received", byTopic(consumer, 10));
        }
    }

    private Object pattern() throws Exception {
        try (Producer<byte[]> a = client.newProducer().topic("watch-a").create();
                Producer<byte[]> other = client.newProducer().topic("other").create();
                Consumer<byte[]> consumer = client.newConsumer().subscriptionName("work")
                        .topicsPattern(Pattern.compile("persistent://public/default/watch-.*"))
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
                Producer<byte[]> b = client.newProducer().topic("watch-b").create()) {
            other.send("elsewhere".getBytes());
            send(a, 0, 2);
            send(b, 2, 4);
            return Map.of("received", byTopic(consumer, 4));
        }
    }

    private Object deduplicate() throws Exception {
        try (Consumer<byte[]> consumer = consumer("work").subscribe()) {
            List<Long> last = new ArrayList<>();
            for (int[] sequence : new int[][] {{0, 1, 2}, {1, 2, 3}}) {
                try (Producer<byte[]> producer = client.newProducer().topic(topic).producerName("p")
                        .enableBatching(false).create()) {
                    last.add(producer.getLastSequenceId());
                    for (int n : sequence) {
                        producer.newMessage().value(payload(n)).sequenceId(n).send();
                    }
                }
            }
            List<String> received = new ArrayList<>(takeUntil(consumer, "message-3"));
            received.addAll(rest(consumer));
            return Map.of("received", received, "last", last);
        }
    }

    private Object accessModes() throws Exception {
        ProducerBuilder<byte[]> builder = client.newProducer().topic(topic);
        Producer<byte[]> holder = builder.clone().producerName("holder").accessMode(ProducerAccessMode.Exclusive).create();
        String refused = refusal(() -> builder.clone().accessMode(ProducerAccessMode.Exclusive).create());
        CompletableFuture<Producer<byte[]>> waiting = builder.clone().producerName("heir")
                .accessMode(ProducerAccessMode.WaitForExclusive).createAsync();
        Thread.sleep(QUIET_MS);
        boolean early = waiting.isDone();
        holder.send("holder".getBytes());
        holder.close();
        try (Producer<byte[]> heir = waiting.get(WAIT_SECONDS, TimeUnit.SECONDS)) {
            heir.send("heir".getBytes());
        }
        return Map.of("refused", refused, "early", early);
    }

    private Object fencing() throws Exception {
        ProducerBuilder<byte[]> builder = client.newProducer().topic(topic).sendTimeout(2, TimeUnit.SECONDS);
        Producer<byte[]> holder = builder.clone().producerName("holder").accessMode(ProducerAccessMode.Exclusive).create();
        holder.send("holder".getBytes());
        try (Producer<byte[]> usurper = builder.clone().producerName("usurper")
                .accessMode(ProducerAccessMode.ExclusiveWithFencing).create()) {
            usurper.send("usurper".getBytes());
            String fenced = refusal(() -> holder.send("too late".getBytes()));
            return Map.of("fenced", fenced);
        }
    }

    private Object reconnect() throws Exception {
        // Only close() sends the acknowledgements, because sending one fails while the connection is broken.
        try (Consumer<byte[]> consumer = consumer("work").subscriptionType(type())
                        .acknowledgmentGroupTime(1, TimeUnit.HOURS).subscribe();
                Producer<byte[]> producer = producer().create()) {
            send(producer, 0, 10);
            List<String> received = new ArrayList<>(takeAll(consumer, 5));
            List<CompletableFuture<MessageId>> sends = new ArrayList<>();
            please("interrupt");
            for (int n = 10; n < 20; n++) {
                sends.add(producer.newMessage().value(payload(n)).sendAsync());
            }
            producer.flush();
            for (CompletableFuture<MessageId> one : sends) {
                one.get(WAIT_SECONDS, TimeUnit.SECONDS);
            }
            received.addAll(takeUntil(consumer, "message-19"));
            return Map.of("received", received);
        }
    }

    private Object endOfTopic() throws Exception {
        try (Consumer<byte[]> consumer = consumer("work").subscribe(); Producer<byte[]> producer = producer().create()) {
            send(producer, 0, 2);
            please("terminate");
            List<String> received = takeAll(consumer, 2);
            for (int n = 0; n < 100 && !consumer.hasReachedEndOfTopic(); n++) {
                Thread.sleep(20);
            }
            String refused = refusal(() -> producer.send("more".getBytes()));
            return Map.of("received", received, "ended", consumer.hasReachedEndOfTopic(), "refused", refused);
        }
    }

    // -- words of the scenarios

    /**
     * Returns a consumer that sends each acknowledgement at once. With the default grouping, a flush by the timer that
     * is under way when close() is called can write its ACK after CLOSE_CONSUMER, and then the broker ignores it.
     */
    private ConsumerBuilder<byte[]> consumer(String subscription) {
        return client.newConsumer().topic(topic).subscriptionName(subscription)
                .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS);
    }

    private ConsumerBuilder<byte[]> stickyConsumer(int first, int last) {
        return consumer("work").subscriptionType(SubscriptionType.Key_Shared)
                .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(first, last)));
    }

    private ProducerBuilder<byte[]> producer() {
        String batching = text("batching", "none");
        // Else what is below 4 kB is not compressed; first, because it sets other settings back.
        return client.newProducer().loadConf(Map.of("compressMinMsgBodySize", 0)).topic(topic)
                .enableBatching(!batching.equals("none"))
                .batchingMaxPublishDelay(10, TimeUnit.MILLISECONDS).hashingScheme(HashingScheme.Murmur3_32Hash)
                .batcherBuilder(batching.equals("key") ? BatcherBuilder.KEY_BASED : BatcherBuilder.DEFAULT)
                .compressionType(CompressionType.valueOf(text("compression", "NONE")));
    }

    private TypedMessageBuilder<byte[]> whole(Producer<byte[]> producer, int n) {
        return producer.newMessage().key("k" + n % 5).orderingKey(("o" + n % 5).getBytes()).property("n", "" + n)
                .eventTime(1000 + n).value(payload(n));
    }

    private void send(Producer<byte[]> producer, int first, int end) throws PulsarClientException {
        for (int n = first; n < end; n++) {
            producer.send(payload(n));
        }
    }

    private void sendKeyed(Producer<byte[]> producer, int count) throws PulsarClientException {
        for (int n = 0; n < count; n++) {
            producer.newMessage().key("k" + n % 10).value(payload(n)).sendAsync();
        }
        producer.flush();
    }

    private static byte[] payload(int n) {
        return ("message-" + n).getBytes();
    }

    private static Message<byte[]> take(Consumer<byte[]> consumer) throws PulsarClientException {
        Message<byte[]> message = consumer.receive(WAIT_SECONDS, TimeUnit.SECONDS);
        if (message == null) {
            throw new IllegalStateException("no message within " + WAIT_SECONDS + " s");
        }
        return message;
    }

    private static List<String> takeAll(Consumer<byte[]> consumer, int count) throws PulsarClientException {
        List<String> received = new ArrayList<>();
        while (received.size() < count) {
            Message<byte[]> message = take(consumer);
            consumer.acknowledge(message);
            received.add(data(message));
        }
        return received;
    }

    private static List<String> takeUntil(Consumer<byte[]> consumer, String last) throws PulsarClientException {
        List<String> received = new ArrayList<>();
        while (received.isEmpty() || !received.get(received.size() - 1).equals(last)) {
            received.addAll(takeAll(consumer, 1));
        }
        return received;
    }

    private static List<String> rest(Consumer<byte[]> consumer) throws PulsarClientException {
        List<String> received = new ArrayList<>();
        Message<byte[]> message;
        while ((message = consumer.receive(QUIET_MS, TimeUnit.MILLISECONDS)) != null) {
            received.add(data(message));
        }
        return received;
    }

    private static List<String> readAll(Reader<byte[]> reader) throws PulsarClientException {
        List<String> read = new ArrayList<>();
        while (reader.hasMessageAvailable()) {
            read.add(data(reader.readNext(WAIT_SECONDS, TimeUnit.SECONDS)));
        }
        return read;
    }

    private static List<Object> byTopic(Consumer<byte[]> consumer, int count) throws PulsarClientException {
        List<Object> received = new ArrayList<>();
        while (received.size() < count) {
            Message<byte[]> message = take(consumer);
            consumer.acknowledge(message);
            received.add(List.of(message.getTopicName(), data(message)));
        }
        return received;
    }

    private static Map<String, Object> deal(Map<String, Consumer<byte[]>> consumers, int count) throws Exception {
        Map<String, List<String>> hands = new LinkedHashMap<>();
        int dealt = 0;
        for (long end = System.nanoTime() + WAIT_SECONDS * 1_000_000_000L; dealt < count && System.nanoTime() < end;) {
            for (Map.Entry<String, Consumer<byte[]>> one : consumers.entrySet()) {
                List<String> hand = hands.computeIfAbsent(one.getKey(), name -> new ArrayList<>());
                Message<byte[]> message = one.getValue().receive(20, TimeUnit.MILLISECONDS);
                if (message != null) {
                    one.getValue().acknowledge(message);
                    hand.add(message.hasKey() ? message.getKey() + "=" + data(message) : data(message));
                    dealt++;
                }
            }
        }
        return new LinkedHashMap<>(hands);
    }

    private static String data(Message<byte[]> message) {
        return new String(message.getData(), StandardCharsets.UTF_8);
    }

    private static Map<String, Object> record(Message<byte[]> message) {
        Map<String, Object> record = new LinkedHashMap<>();
        record.put("data", data(message));
        record.put("key", message.hasKey() ? message.getKey() : "");
        record.put("ordering_key", message.hasOrderingKey() ? new String(message.getOrderingKey()) : "");
        record.put("properties", message.getProperties());
        record.put("event_time", message.getEventTime());
        return record;
    }

    private static String sha1(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-1").digest(bytes));
    }

    private static String refusal(Attempt attempt) {
        try {
            attempt.make();
            return "";
        } catch (Exception refused) {
            return refused.getClass().getSimpleName();
        }
    }

    private static void please(String what) throws Exception {
        OUT.println(GSON.toJson(Map.of("please", what)));
        IN.readLine();
    }

    private SubscriptionType type() {
        return SubscriptionType.valueOf(text("type", "Exclusive"));
    }

    private int count(int usual) {
        return args.has("count") ? args.get("count").getAsInt() : usual;
    }

    private String text(String name, String usual) {
        return args.has(name) ? args.get(name).getAsString() : usual;
    }

    /** What JSON and Avro messages hold. */
    public static final class User {
        public String name;
        public int age;

        public User() {}

        User(String name, int age) {
            this.name = name;
            this.age = age;
        }
    }

    private interface Scenario {
        Object play(Interop with) throws Exception;
    }

    private interface Attempt {
        void make() throws Exception;
    }
}
