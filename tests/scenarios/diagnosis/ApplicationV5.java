import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.v5.Checkpoint;
import org.apache.pulsar.client.api.v5.CheckpointConsumer;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.MessageId;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.ProducerBuilder;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.PulsarClientException;
import org.apache.pulsar.client.api.v5.QueueConsumer;
import org.apache.pulsar.client.api.v5.QueueConsumerBuilder;
import org.apache.pulsar.client.api.v5.StreamConsumer;
import org.apache.pulsar.client.api.v5.Transaction;
import org.apache.pulsar.client.api.v5.config.BackoffPolicy;
import org.apache.pulsar.client.api.v5.config.BatchingPolicy;
import org.apache.pulsar.client.api.v5.config.DeadLetterPolicy;
import org.apache.pulsar.client.api.v5.config.ProcessingTimeoutPolicy;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.config.TransactionPolicy;
import org.apache.pulsar.client.api.v5.schema.Schema;

/** The counterpart of Application.java with the V5 client, whose topics have segments. */
public final class ApplicationV5 extends ClientProgram {
    private final Map<String, Producer<byte[]>> producers = new HashMap<>();
    private final Map<String, Receiver> consumers = new ConcurrentHashMap<>();
    private final Map<String, List<Message<byte[]>>> held = new ConcurrentHashMap<>();
    private final Map<String, Transaction> transactions = new HashMap<>();
    private PulsarClient client;

    private ApplicationV5(String name, String serviceUrl, Path folder) throws IOException {
        super(name, serviceUrl, folder);
    }

    public static void main(String[] words) throws IOException {
        run(words, ApplicationV5::new);
    }

    private PulsarClient client() throws PulsarClientException {
        if (client == null) {
            clientCommand(new Command(new JsonObject()));
        }
        return client;
    }

    /** Create the client; without this command it is created with its defaults. */
    private Object clientCommand(Command command) throws PulsarClientException {
        var builder = PulsarClient.builder().serviceUrl(serviceUrl).operationTimeout(Duration.ofSeconds(RESULT_S));
        if (command.is("transactions")) {
            builder.transactionPolicy(TransactionPolicy.builder().timeout(Duration.ofMinutes(1)).build());
        }
        client = builder.build();
        return null;
    }

    // -- transactions

    private Object beginCommand(Command command) throws PulsarClientException {
        transactions.put(command.text("txn", ""), client().newTransaction());
        log("began", "txn", command.text("txn", ""));
        return null;
    }

    private Object commitCommand(Command command) throws PulsarClientException {
        transactions.get(command.text("txn", "")).commit();
        log("committed", "txn", command.text("txn", ""));
        return null;
    }

    private Object abortCommand(Command command) throws PulsarClientException {
        transactions.get(command.text("txn", "")).abort();
        log("aborted", "txn", command.text("txn", ""));
        return null;
    }

    // -- producers

    private Object producerCommand(Command command) throws PulsarClientException {
        ProducerBuilder<byte[]> builder = client().newProducer(Schema.bytes()).topic(command.text("topic", ""));
        int batch = command.number("batch", 0);
        builder.batchingPolicy(batch == 0 ? BatchingPolicy.ofDisabled()
                : BatchingPolicy.builder().maxMessages(batch).maxPublishDelay(Duration.ofMillis(10)).build());
        if (!command.is("unnamed")) {
            builder.producerName(command.text("producer", ""));
        }
        producers.put(command.text("producer", ""), builder.create());
        return null;
    }

    /** Send messages and wait for their receipts. Return the number of messages that the broker stored. */
    private Object sendCommand(Command command) throws Exception {
        String name = command.text("producer", "");
        Producer<byte[]> producer = producers.get(name);
        List<JsonElement> keys = command.list("keys");
        int first = command.number("first", 0);
        int count = command.number("count", 0);
        AtomicInteger stored = new AtomicInteger();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Semaphore done = new Semaphore(0);
        for (int number = first; number < first + count; number++) {
            var message = producer.async().newMessage().value(payload(name, number, command.number("size", 20)));
            if (command.has("txn")) {
                message.transaction(transactions.get(command.text("txn", "")));
            }
            if (!keys.isEmpty()) {
                message.key(keys.get(number % keys.size()).getAsString());
            }
            int sent = number;
            log("sending", "producer", name, "n", sent);
            var result = message.send().whenComplete((id, fault) -> {
                if (fault == null) {
                    stored.incrementAndGet();
                    log("produced", "producer", name, "n", sent, "message_id", text(id));
                } else {
                    failure.compareAndSet(null, fault);
                    log("send_failed", "producer", name, "n", sent, "error", fault.toString());
                }
                done.release();
            });
            if (command.is("one_by_one")) {
                result.get(RESULT_S, TimeUnit.SECONDS);
            }
            Thread.sleep(command.number("interval_ms", 0));
        }
        if (!done.tryAcquire(count, RESULT_S, TimeUnit.SECONDS)) {
            throw new TimeoutException("a SEND has no result after " + RESULT_S + " s");
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        return stored.get();
    }

    private Object closeProducerCommand(Command command) throws PulsarClientException {
        producers.remove(command.text("producer", "")).close();
        return null;
    }

    // -- consumers

    /** Create a consumer; its type is stream, queue or checkpoint. */
    private Object subscribeCommand(Command command) throws PulsarClientException {
        String name = command.text("consumer", "");
        consumers.put(name, switch (command.text("type", "")) {
            case "stream" -> new StreamReceiver(client().newStreamConsumer(Schema.bytes())
                    .topic(command.text("topic", "")).subscriptionName(command.text("subscription", ""))
                    .consumerName(name).subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe());
            case "queue" -> new QueueReceiver(queue(command).subscribe());
            default -> new CheckpointReceiver(client().newCheckpointConsumer(Schema.bytes())
                    .topic(command.text("topic", "")).consumerGroup(command.text("subscription", ""))
                    .consumerName(name).startPosition(Checkpoint.earliest()).create());
        });
        held.put(name, new ArrayList<>());
        log("subscribed", "consumer", name);
        return null;
    }

    private QueueConsumerBuilder<byte[]> queue(Command command) throws PulsarClientException {
        var builder = client().newQueueConsumer(Schema.bytes()).topic(command.text("topic", ""))
                .subscriptionName(command.text("subscription", "")).consumerName(command.text("consumer", ""))
                .receiverQueueSize(command.number("queue", 1000))
                .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST);
        if (command.has("nack_delay_ms")) {
            Duration delay = Duration.ofMillis(command.number("nack_delay_ms", 0));
            builder.negativeAckRedeliveryBackoff(BackoffPolicy.exponential(delay, delay));
        }
        if (command.has("ack_timeout_ms")) {
            builder.processingTimeout(ProcessingTimeoutPolicy.of(Duration.ofMillis(command.number("ack_timeout_ms", 0))));
        }
        if (command.has("dead_letter")) {
            builder.deadLetterPolicy(DeadLetterPolicy.builder()
                    .maxRedeliverCount(command.list("dead_letter").get(0).getAsInt())
                    .deadLetterTopic(command.list("dead_letter").get(1).getAsString()).build());
        }
        return builder;
    }

    /** Receive messages and handle them; return their number. It ends early if none arrives for timeout_ms. */
    private Object receiveCommand(Command command) throws Exception {
        String name = command.text("consumer", "");
        int count = command.number("count", 0);
        int got = 0;
        while (got < count && receiveOne(name, command, command.number("timeout_ms", 10_000))) {
            got++;
        }
        if (got < count && !command.is("fewer")) {
            throw new TimeoutException(name + " received " + got + " of " + count + " messages");
        }
        return got;
    }

    /** Receive and handle messages in the background until `stop` or `close_consumer`. */
    private Object consumeCommand(Command command) {
        String name = command.text("consumer", "");
        AtomicBoolean over = new AtomicBoolean();
        Thread thread = new Thread(() -> {
            while (!over.get()) {
                try {
                    receiveOne(name, command, POLL_MS);
                } catch (Exception end) {
                    return; // the consumer or its client was closed
                }
            }
        });
        loops.put(name, new Loop(thread, over));
        thread.start();
        return null;
    }

    private boolean receiveOne(String name, Command command, int timeoutMs) throws Exception {
        Message<byte[]> message = consumers.get(name).receive(Duration.ofMillis(timeoutMs));
        if (message == null) {
            return false;
        }
        String[] words = words(message);
        log("received", "consumer", name, "producer", words[0], "n", number(message), "message_id", text(message.id()),
                "redelivery", message.redeliveryCount());
        Thread.sleep(command.number("work_ms", 0));
        String ack = command.text("ack", "each");
        if (ack.equals("nack") || command.list("nacks").stream().anyMatch(one -> one.getAsInt() == number(message))) {
            consumers.get(name).reject(message.id());
            log("nacked", "consumer", name, "n", number(message));
        } else if (ack.equals("each")) {
            acknowledge(name, message, null);
        } else {
            held.get(name).add(message);
        }
        return true;
    }

    private static String[] words(Message<byte[]> message) {
        return new String(message.value(), StandardCharsets.UTF_8).split(":", 3);
    }

    private static int number(Message<byte[]> message) {
        return Integer.parseInt(words(message)[1]);
    }

    /** Return {@code ledger:entry:segment:batch}. The API of the client has no access to these numbers. */
    private static String text(MessageId id) {
        try {
            MessageIdAdv one = (MessageIdAdv) field(id, "v4MessageId");
            return one.getLedgerId() + ":" + one.getEntryId() + ":" + field(id, "segmentId") + ":" + one.getBatchIndex();
        } catch (ReflectiveOperationException fault) {
            throw new IllegalStateException(fault);
        }
    }

    private static Object field(MessageId id, String name) throws ReflectiveOperationException {
        Method method = id.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return method.invoke(id);
    }

    /** Acknowledge a message; for a stream consumer also those before it, which the log does not repeat. */
    private void acknowledge(String name, Message<byte[]> message, Transaction transaction) {
        consumers.get(name).acknowledge(message.id(), transaction);
        log("acked", "consumer", name, "n", number(message));
    }

    /** Acknowledge the first `count` held messages of a consumer, or all; return their number. */
    private Object ackCommand(Command command) {
        String name = command.text("consumer", "");
        List<Message<byte[]>> all = held.get(name);
        List<Message<byte[]>> chosen = all.subList(0, Math.min(command.number("count", all.size()), all.size()));
        int count = chosen.size();
        Transaction transaction = transactions.get(command.text("txn", ""));
        chosen.forEach(message -> acknowledge(name, message, transaction));
        chosen.clear();
        return count;
    }

    private Object closeConsumerCommand(Command command) throws Exception {
        if (loops.containsKey(command.text("consumer", ""))) {
            stopCommand(command);
        }
        consumers.remove(command.text("consumer", "")).close();
        log("closed", "consumer", command.text("consumer", ""));
        return null;
    }

    /** Close the client, and not its producers and consumers. */
    private Object closeClientCommand(Command command) throws Exception {
        for (String name : List.copyOf(loops.keySet())) {
            Command stop = new Command(command.fields().deepCopy());
            stop.fields().addProperty("consumer", name);
            stopCommand(stop);
        }
        producers.clear();
        consumers.clear();
        client.close();
        client = null;
        return null;
    }

    /** The process ends without closing the client. */
    private Object exitCommand(Command command) {
        return null;
    }

    /** Close the client with its producers and consumers. */
    private Object closeCommand(Command command) throws Exception {
        loops.values().forEach(loop -> loop.over().set(true));
        for (Receiver consumer : consumers.values()) {
            consumer.close();
        }
        for (Producer<byte[]> producer : producers.values()) {
            producer.close();
        }
        if (client != null) {
            client.closeAsync();
        }
        return null;
    }

    /** What the consumers of the three types have in common. */
    private interface Receiver {
        Message<byte[]> receive(Duration time) throws PulsarClientException;

        /** Acknowledge a message, in a transaction if it is not null. */
        void acknowledge(MessageId id, Transaction transaction);

        void reject(MessageId id);

        void close() throws Exception;
    }

    private record StreamReceiver(StreamConsumer<byte[]> consumer) implements Receiver {
        public Message<byte[]> receive(Duration time) throws PulsarClientException {
            return consumer.receive(time);
        }

        public void acknowledge(MessageId id, Transaction transaction) {
            if (transaction == null) {
                consumer.acknowledgeCumulative(id);
            } else {
                consumer.acknowledgeCumulative(id, transaction);
            }
        }

        public void reject(MessageId id) {
            throw new IllegalArgumentException("a stream consumer cannot reject a message");
        }

        public void close() throws Exception {
            consumer.close();
        }
    }

    private record QueueReceiver(QueueConsumer<byte[]> consumer) implements Receiver {
        public Message<byte[]> receive(Duration time) throws PulsarClientException {
            return consumer.receive(time);
        }

        public void acknowledge(MessageId id, Transaction transaction) {
            if (transaction == null) {
                consumer.acknowledge(id);
            } else {
                consumer.acknowledge(id, transaction);
            }
        }

        public void reject(MessageId id) {
            consumer.negativeAcknowledge(id);
        }

        public void close() throws Exception {
            consumer.close();
        }
    }

    private record CheckpointReceiver(CheckpointConsumer<byte[]> consumer) implements Receiver {
        public Message<byte[]> receive(Duration time) throws PulsarClientException {
            return consumer.receive(time);
        }

        public void acknowledge(MessageId id, Transaction transaction) {
            // The client acknowledges by itself.
        }

        public void reject(MessageId id) {
            throw new IllegalArgumentException("a checkpoint consumer cannot reject a message");
        }

        public void close() throws Exception {
            consumer.close();
        }
    }
}
