import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.ToNumberPolicy;
import com.google.gson.reflect.TypeToken;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.ReaderBuilder;

/** Plays a consumer's script: what an application does, step by step. See test_equal_consuming.py. */
public final class Consuming {
    private static final Gson GSON =
            new GsonBuilder().setObjectToNumberStrategy(ToNumberPolicy.LONG_OR_DOUBLE).create();
    private static final BufferedReader IN =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private final List<Message<byte[]>> received = new ArrayList<>();
    private final List<Object> saw = new ArrayList<>();
    private boolean queueless;

    public static void main(String[] words) throws Exception {
        String line;
        while ((line = IN.readLine()) != null) {
            JsonObject order = GSON.fromJson(line, JsonObject.class);
            try {
                PulsarClient client = PulsarClient.builder().serviceUrl(order.get("url").getAsString()).build();
                Object saw = new Consuming().play(client, order);
                client.closeAsync(); // its threads take two seconds to end, which nobody need wait for
                say(saw);
            } catch (Exception failure) {
                say(Map.of("failed", failure.toString()));
            }
        }
        System.exit(0);
    }

    private Object play(PulsarClient client, JsonObject order) throws Exception {
        Map<String, Object> settings =
                GSON.fromJson(order.get("settings"), new TypeToken<Map<String, Object>>() { }.getType());
        queueless = Long.valueOf(0).equals(settings.get("receiverQueueSize"));
        if (order.get("reader").getAsBoolean()) {
            try (Reader<byte[]> reader = reader(client, settings)) {
                for (JsonElement step : order.getAsJsonArray("steps")) {
                    read(reader, step.getAsJsonArray());
                }
            }
        } else {
            try (Consumer<byte[]> consumer = consumer(client, settings)) {
                for (JsonElement step : order.getAsJsonArray("steps")) {
                    consume(consumer, step.getAsJsonArray());
                }
            }
        }
        return saw;
    }

    private static Consumer<byte[]> consumer(PulsarClient client, Map<String, Object> settings) throws Exception {
        ConsumerBuilder<byte[]> builder = client.newConsumer();
        Object topics = settings.remove("topicNames");
        Object pattern = settings.remove("topicsPattern");
        Object ranges = settings.remove("ranges");
        Object dead = settings.remove("maxRedeliverCount");
        if (topics != null) {
            builder.topics(((List<?>) topics).stream().map(Object::toString).toList());
        }
        if (pattern != null) {
            builder.topicsPattern(Pattern.compile(pattern.toString()));
        }
        builder.loadConf(settings);
        if (ranges != null) {
            builder.keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(ranges(ranges)));
        }
        if (dead != null) {
            builder.deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(((Long) dead).intValue()).build());
        }
        return builder.subscribe();
    }

    private static Reader<byte[]> reader(PulsarClient client, Map<String, Object> settings) throws Exception {
        ReaderBuilder<byte[]> builder = client.newReader().topic(settings.remove("topicName").toString());
        Object ranges = settings.remove("ranges");
        boolean latest = "latest".equals(settings.remove("start"));
        builder.loadConf(settings).startMessageId(latest ? MessageId.latest : MessageId.earliest);
        return (ranges == null ? builder : builder.keyHashRange(ranges(ranges))).create();
    }

    private static Range[] ranges(Object given) {
        return ((List<?>) given).stream().map(one -> (List<?>) one)
                .map(one -> Range.of(((Long) one.get(0)).intValue(), ((Long) one.get(1)).intValue()))
                .toArray(Range[]::new);
    }

    private void consume(Consumer<byte[]> consumer, JsonArray step) throws Exception {
        switch (step.get(0).getAsString()) {
            case "receive" -> {
                for (int n = 0; n < step.get(1).getAsInt(); n++) {
                    keep(queueless ? consumer.receive() : consumer.receive(20, TimeUnit.SECONDS));
                }
            }
            case "quiet" -> saw.add(consumer.receive(step.get(1).getAsInt(), TimeUnit.MILLISECONDS) == null);
            case "ack" -> {
                for (int n = step.get(1).getAsInt(); n < step.get(2).getAsInt(); n++) {
                    consumer.acknowledge(received.get(n));
                }
            }
            case "cumulative" -> consumer.acknowledgeCumulative(received.get(step.get(1).getAsInt()));
            case "nack" -> consumer.negativeAcknowledge(received.get(step.get(1).getAsInt()));
            case "put_off" -> consumer.reconsumeLater(
                    received.get(step.get(1).getAsInt()), step.get(2).getAsLong(), TimeUnit.MILLISECONDS);
            case "redeliver" -> consumer.redeliverUnacknowledgedMessages();
            case "seek" -> {
                String target = step.get(1).getAsString();
                consumer.seek(target.equals("earliest") ? MessageId.earliest
                        : target.equals("latest") ? MessageId.latest
                        : received.get(Integer.parseInt(target)).getMessageId());
            }
            case "pause" -> consumer.pause();
            case "resume" -> consumer.resume();
            case "unsubscribe" -> consumer.unsubscribe();
            default -> other(step);
        }
    }

    private void read(Reader<byte[]> reader, JsonArray step) throws Exception {
        switch (step.get(0).getAsString()) {
            case "receive" -> {
                for (int n = 0; n < step.get(1).getAsInt(); n++) {
                    keep(reader.readNext(20, TimeUnit.SECONDS));
                }
            }
            case "more" -> saw.add(reader.hasMessageAvailable());
            case "seek" -> reader.seek(received.get(step.get(1).getAsInt()).getMessageId());
            default -> other(step);
        }
    }

    private void keep(Message<byte[]> message) {
        received.add(message);
        saw.add(message == null ? List.of() : List.of(
                new String(message.getData(), StandardCharsets.UTF_8), message.getRedeliveryCount()));
    }

    private static void other(JsonArray step) throws Exception {
        if (step.get(0).getAsString().equals("sleep")) {
            Thread.sleep(step.get(1).getAsLong());
        } else {
            say(Map.of("please", step.get(0).getAsString()));
            IN.readLine();
        }
    }

    private static void say(Object what) {
        System.out.println(GSON.toJson(what));
        System.out.flush();
    }
}
