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
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/** Plays a producer's script: what an application does, step by step. See test_equal_producing.py. */
public final class Producing {
    private static final Gson GSON =
            new GsonBuilder().setObjectToNumberStrategy(ToNumberPolicy.LONG_OR_DOUBLE).create();
    private static final BufferedReader IN =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    public static void main(String[] words) throws Exception {
        String line;
        while ((line = IN.readLine()) != null) {
            JsonObject order = GSON.fromJson(line, JsonObject.class);
            PulsarClient client = PulsarClient.builder().serviceUrl(order.get("url").getAsString()).build();
            try {
                say(order.has("private_key") ? consume(client, order) : produce(client, order));
            } catch (Exception failure) {
                say(Map.of("failed", failure.toString()));
            } finally {
                client.closeAsync(); // its threads take two seconds to end, which nobody need wait for
            }
        }
        System.exit(0);
    }

    private static Object produce(PulsarClient client, JsonObject order) throws Exception {
        Map<String, Object> settings =
                GSON.fromJson(order.get("settings"), new TypeToken<Map<String, Object>>() { }.getType());
        boolean keyBased = "KEY_BASED".equals(settings.remove("batcherBuilder"));
        ProducerBuilder<byte[]> builder = client.newProducer().topic("orders").loadConf(settings);
        Producer<byte[]> producer = (keyBased ? builder.batcherBuilder(BatcherBuilder.KEY_BASED) : builder).create();
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (JsonElement step : order.getAsJsonArray("steps")) {
            JsonArray words = step.getAsJsonArray();
            switch (words.get(0).getAsString()) {
                case "send" -> sent.add(message(producer, words).sendAsync());
                case "block" -> message(producer, words).send();
                case "text" -> sent.add(producer.newMessage(Schema.STRING).value(words.get(1).getAsString()).sendAsync());
                case "number" -> sent.add(producer.newMessage(Schema.INT64).value(words.get(1).getAsLong()).sendAsync());
                case "sleep" -> Thread.sleep(words.get(1).getAsLong());
                case "flush" -> producer.flush();
                case "wait" -> {
                    for (CompletableFuture<MessageId> one : sent) {
                        settled(one);
                    }
                }
                case "close" -> producer.close();
                default -> {
                    say(Map.of("please", words.get(0).getAsString()));
                    IN.readLine();
                }
            }
        }
        List<String> ends = new ArrayList<>();
        for (CompletableFuture<MessageId> one : sent) {
            ends.add(settled(one));
        }
        producer.close();
        return ends;
    }

    private static Object consume(PulsarClient client, JsonObject order) throws Exception {
        List<String> payloads = new ArrayList<>();
        try (Consumer<byte[]> consumer = client.newConsumer().topic("orders").subscriptionName("work")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .defaultCryptoKeyReader("file://" + order.get("private_key").getAsString()).subscribe()) {
            for (int n = 0; n < order.get("count").getAsInt(); n++) {
                payloads.add(new String(consumer.receive(10, TimeUnit.SECONDS).getValue(), StandardCharsets.UTF_8));
            }
        }
        return payloads;
    }

    private static String settled(CompletableFuture<MessageId> sent) throws Exception {
        try {
            sent.get(20, TimeUnit.SECONDS);
            return "stored";
        } catch (ExecutionException failure) {
            return failure.getCause().getClass().getSimpleName();
        }
    }

    private static TypedMessageBuilder<byte[]> message(Producer<byte[]> producer, JsonArray words) {
        TypedMessageBuilder<byte[]> message = producer.newMessage().value("x".repeat(words.get(1).getAsInt()).getBytes());
        JsonObject more = words.size() > 2 ? words.get(2).getAsJsonObject() : new JsonObject();
        for (Map.Entry<String, JsonElement> one : more.entrySet()) {
            JsonElement value = one.getValue();
            switch (one.getKey()) {
                case "key" -> message.key(value.getAsString());
                case "key_bytes" -> message.keyBytes(Base64.getDecoder().decode(value.getAsString()));
                case "ordering_key" -> message.orderingKey(value.getAsString().getBytes());
                case "sequence_id" -> message.sequenceId(value.getAsLong());
                case "event_time" -> message.eventTime(value.getAsLong());
                case "deliver_after" -> message.deliverAfter(value.getAsLong(), TimeUnit.MILLISECONDS);
                case "property" -> message.property("name", value.getAsString());
                case "null" -> message.value(null);
                default -> throw new IllegalArgumentException(one.getKey());
            }
        }
        return message;
    }

    private static void say(Object words) {
        System.out.println(GSON.toJson(words));
    }
}
