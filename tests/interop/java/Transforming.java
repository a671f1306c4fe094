import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/** Consumes, transforms and produces messages, each in one transaction. See test_transactions.py. */
public final class Transforming {
    private static final int WAIT_SECONDS = 10;
    private static final int QUIET_MS = 300;
    private static final Gson GSON = new Gson();
    private static final BufferedReader IN =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    public static void main(String[] words) throws Exception {
        String line;
        while ((line = IN.readLine()) != null) {
            JsonObject order = GSON.fromJson(line, JsonObject.class);
            PulsarClient client = PulsarClient.builder().serviceUrl(order.get("url").getAsString())
                    .startingBackoffInterval(50, TimeUnit.MILLISECONDS).enableTransaction(true).build();
            try {
                Object saw = switch (order.get("scenario").getAsString()) {
                    case "publish" -> publish(client, order.get("count").getAsInt());
                    case "transform" -> transform(client, order);
                    default -> read(client);
                };
                say(Map.of("saw", saw));
            } catch (Exception failure) {
                say(Map.of("failed", failure + " at " + List.of(failure.getStackTrace())));
            } finally {
                client.closeAsync(); // its threads take two seconds to end, which nobody need wait for
            }
        }
        System.exit(0);
    }

    /** Create the subscriptions of both topics, and publish messages. */
    private static Object publish(PulsarClient client, int count) throws Exception {
        client.newConsumer().topic("orders").subscriptionName("work").subscribe().close();
        client.newConsumer().topic("results").subscriptionName("reader").subscribe().close();
        try (Producer<String> producer = client.newProducer(Schema.STRING).topic("orders").create()) {
            for (int n = 0; n < count; n++) {
                producer.newMessage().key("k").value("message-" + n).send();
            }
        }
        return count;
    }

    /** Process one message for each step. The result is the number of committed transactions. */
    private static Object transform(PulsarClient client, JsonObject order) throws Exception {
        int committed = 0;
        try (Consumer<String> consumer = client.newConsumer(Schema.STRING).topic("orders").subscriptionName("work")
                        .subscriptionType(SubscriptionType.valueOf(order.get("type").getAsString())).subscribe();
                Producer<String> producer = client.newProducer(Schema.STRING).topic("results")
                        .sendTimeout(0, TimeUnit.SECONDS).create()) {
            for (var step : order.getAsJsonArray("steps")) {
                Transaction txn = client.newTransaction().withTransactionTimeout(1, TimeUnit.MINUTES).build().get();
                Message<String> message = consumer.receive(WAIT_SECONDS, TimeUnit.SECONDS);
                consumer.acknowledgeAsync(message.getMessageId(), txn).get();
                producer.newMessage(txn).value("first half of " + message.getValue()).send();
                switch (step.getAsString()) {
                    case "die" -> Runtime.getRuntime().halt(1);
                    case "commit" -> { }
                    case "abort" -> {
                        txn.abort().get();
                        continue;
                    }
                    default -> {
                        say(Map.of("please", step.getAsString()));
                        IN.readLine();
                    }
                }
                producer.newMessage(txn).value("second half of " + message.getValue()).send();
                txn.commit().get();
                committed++;
            }
        }
        return committed;
    }

    /** Read the results. */
    private static Object read(PulsarClient client) throws Exception {
        List<String> payloads = new ArrayList<>();
        try (Consumer<String> consumer = client.newConsumer(Schema.STRING).topic("results").subscriptionName("reader")
                .subscribe()) {
            Message<String> message = consumer.receive(WAIT_SECONDS, TimeUnit.SECONDS);
            for (; message != null; message = consumer.receive(QUIET_MS, TimeUnit.MILLISECONDS)) {
                consumer.acknowledge(message);
                payloads.add(message.getValue());
            }
        }
        return payloads;
    }

    private static void say(Object words) {
        System.out.println(GSON.toJson(words));
    }
}
