import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
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
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
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
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.client.api.transaction.TxnID;
import org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff;

/**
 * The counterpart of application.py with the official Java client.
 *
 * <p>It runs several applications, each with its own client, thread and log: {@code Application SERVICE_URL FOLDER}. A
 * command names its application in {@code app}; its log is FOLDER/APP.ndjson. README.md lists commands and events.
 */
public final class Application extends ClientProgram {
    /** A schema. */
    public static final class User {
        public String name;
    }

    /** A schema that is incompatible with User. */
    public static final class OtherUser {
        public int name;
    }

    private final Map<String, Producer<byte[]>> producers = new HashMap<>();
    private final Map<String, Consumer<byte[]>> consumers = new ConcurrentHashMap<>();
    private final Map<String, Reader<byte[]>> readers = new HashMap<>();
    private final Map<String, List<Message<byte[]>>> held = new ConcurrentHashMap<>();
    private final Map<String, Transaction> transactions = new HashMap<>();
    private PulsarClient client;

    private Application(String name, String serviceUrl, Path folder) throws IOException {
        super(name, serviceUrl, folder);
    }

    public static void main(String[] words) throws IOException {
        run(words, Application::new);
    }

    private PulsarClient client() throws PulsarClientException {
        if (client == null) {
            clientCommand(new Command(new JsonObject()));
        }
        return client;
    }

    /** Create the client; without this command it is created with its defaults. */
    private Object clientCommand(Command command) throws PulsarClientException {
        client = PulsarClient.builder().serviceUrl(serviceUrl).operationTimeout(RESULT_S, TimeUnit.SECONDS)
                .enableTransaction(command.is("transactions")).build();
        return null;
    }

    // -- producers

    private Object producerCommand(Command command) throws PulsarClientException {
        ProducerBuilder<byte[]> builder = client().newProducer(schema(command)).topic(command.text("topic", ""))
                .producerName(command.text("producer", ""))
                .enableBatching(command.has("batch") && command.number("batch", 0) > 0)
                .batchingMaxPublishDelay(command.number("batch_ms", 10), TimeUnit.MILLISECONDS)
                .enableChunking(command.is("chunking"))
                .compressionType(CompressionType.valueOf(command.text("compression", "NONE")))
                .sendTimeout(command.number("send_timeout_ms", 30_000), TimeUnit.MILLISECONDS)
                .accessMode(ProducerAccessMode.valueOf(command.text("access", "Shared")))
                .blockIfQueueFull(true);
        if (command.number("batch", 0) > 0) {
            builder.batchingMaxMessages(command.number("batch", 0));
        }
        if (command.has("chunk_size")) {
            builder.chunkMaxMessageSize(command.number("chunk_size", 0));
        }
        if (command.has("initial_sequence")) {
            builder.initialSequenceId(command.number("initial_sequence", 0));
        }
        producers.put(command.text("producer", ""), builder.create());
        return null;
    }

    @SuppressWarnings("unchecked") // a producer or consumer with a schema sends and receives no messages
    private static Schema<byte[]> schema(Command command) {
        return switch (command.text("schema", "")) {
            case "user" -> (Schema<byte[]>) (Schema<?>) Schema.AVRO(User.class);
            case "other" -> (Schema<byte[]>) (Schema<?>) Schema.AVRO(OtherUser.class);
            default -> Schema.BYTES;
        };
    }

    /** Send messages and wait for their receipts. Return the number of messages that the broker stored. */
    private Object sendCommand(Command command) throws Exception {
        String name = command.text("producer", "");
        Producer<byte[]> producer = producers.get(name);
        List<JsonElement> sequences = command.list("sequences");
        List<JsonElement> keys = command.list("keys");
        int first = command.number("first", 0);
        int count = command.number("count", 0);
        AtomicInteger stored = new AtomicInteger();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Semaphore done = new Semaphore(0);
        for (int number = first; number < first + count; number++) {
            TypedMessageBuilder<byte[]> message =
                    command.has("txn") ? producer.newMessage(transaction(command)) : producer.newMessage();
            message.value(payload(name, number, command.number("size", 20)));
            if (!keys.isEmpty()) {
                message.key(keys.get(number % keys.size()).getAsString());
            }
            if (!sequences.isEmpty()) {
                message.sequenceId(sequences.get(number - first).getAsLong());
            }
            int sent = number;
            log("sending", "producer", name, "n", sent);
            message.sendAsync().whenComplete((id, fault) -> {
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
                producer.flush();
            }
            Thread.sleep(command.number("interval_ms", 0));
        }
        if (command.is("async")) {
            return 0;
        }
        producer.flushAsync();
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

    // -- transactions

    private Transaction transaction(Command command) {
        return transactions.get(command.text("txn", ""));
    }

    private Object beginCommand(Command command) throws Exception {
        Transaction transaction = client().newTransaction()
                .withTransactionTimeout(command.number("timeout_s", 60), TimeUnit.SECONDS).build().get();
        transactions.put(command.text("txn", ""), transaction);
        TxnID id = transaction.getTxnID();
        log("began", "txn", command.text("txn", ""), "id", id.getMostSigBits() + ":" + id.getLeastSigBits());
        return null;
    }

    private Object commitCommand(Command command) throws Exception {
        transaction(command).commit().get();
        log("committed", "txn", command.text("txn", ""));
        return null;
    }

    private Object abortCommand(Command command) throws Exception {
        transaction(command).abort().get();
        log("aborted", "txn", command.text("txn", ""));
        return null;
    }

    // -- consumers

    private Object subscribeCommand(Command command) throws PulsarClientException {
        String name = command.text("consumer", "");
        ConsumerBuilder<byte[]> builder = client().newConsumer(schema(command)).consumerName(name)
                .subscriptionName(command.text("subscription", ""))
                .subscriptionType(SubscriptionType.valueOf(command.text("type", "")))
                .receiverQueueSize(command.number("queue", 1000))
                .negativeAckRedeliveryDelay(command.number("nack_delay_ms", 60_000), TimeUnit.MILLISECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.valueOf(command.text("position", "Earliest")))
                .enableBatchIndexAcknowledgment(command.is("batch_index"))
                .isAckReceiptEnabled(command.is("ack_receipts"))
                .enableRetry(command.is("retry"));
        if (command.is("pattern")) {
            builder.topicsPattern(Pattern.compile(command.text("topic", "")));
        } else {
            builder.topic(command.text("topic", ""));
        }
        if (command.has("ack_group_ms")) {
            builder.acknowledgmentGroupTime(command.number("ack_group_ms", 0), TimeUnit.MILLISECONDS);
        }
        if (command.has("ack_timeout_ms")) {
            builder.ackTimeout(command.number("ack_timeout_ms", 0), TimeUnit.MILLISECONDS);
        }
        if (command.has("nack_backoff_ms")) {
            builder.negativeAckRedeliveryBackoff(MultiplierRedeliveryBackoff.builder()
                    .minDelayMs(command.list("nack_backoff_ms").get(0).getAsLong())
                    .maxDelayMs(command.list("nack_backoff_ms").get(1).getAsLong()).multiplier(2).build());
        }
        if (command.has("ranges")) {
            List<Range> ranges = new ArrayList<>();
            for (JsonElement range : command.list("ranges")) {
                ranges.add(Range.of(range.getAsJsonArray().get(0).getAsInt(), range.getAsJsonArray().get(1).getAsInt()));
            }
            builder.keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(ranges));
        }
        if (command.has("dead_letter")) {
            builder.deadLetterPolicy(DeadLetterPolicy.builder()
                    .maxRedeliverCount(command.list("dead_letter").get(0).getAsInt())
                    .deadLetterTopic(command.list("dead_letter").get(1).getAsString())
                    .initialSubscriptionName("dead").build());
        }
        consumers.put(name, builder.subscribe());
        held.put(name, new ArrayList<>());
        log("subscribed", "consumer", name);
        return null;
    }

    /** Receive messages and handle them; return their number. It ends early if none arrives for timeout_ms. */
    private Object receiveCommand(Command command) throws Exception {
        String name = command.text("consumer", "");
        int count = command.number("count", 0);
        int got = 0;
        while (got < count) {
            Message<byte[]> message = next(name, command.number("timeout_ms", 10_000));
            if (message == null) {
                break;
            }
            got++;
            Thread.sleep(command.number("work_ms", 0));
            handle(name, message, command);
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
                    Message<byte[]> message = next(name, command.is("zero") ? 0 : POLL_MS);
                    if (message != null) {
                        Thread.sleep(command.number("work_ms", 0));
                        handle(name, message, command);
                    }
                } catch (PulsarClientException.AlreadyClosedException | InterruptedException end) {
                    return;
                } catch (PulsarClientException fault) {
                    over.set(over.get() || fault.getCause() instanceof InterruptedException);
                }
            }
        });
        loops.put(name, new Loop(thread, over));
        thread.start();
        return null;
    }

    /** Return the next message, or null if there is none for this time; 0 is for ever. */
    private Message<byte[]> next(String name, int timeoutMs) throws PulsarClientException {
        Consumer<byte[]> consumer = consumers.get(name);
        Message<byte[]> message =
                timeoutMs == 0 ? consumer.receive() : consumer.receive(timeoutMs, TimeUnit.MILLISECONDS);
        if (message != null) {
            String[] words = words(message);
            log("received", "consumer", name, "producer", words[0], "n", Integer.valueOf(words[1]),
                    "message_id", text(message.getMessageId()), "redelivery", message.getRedeliveryCount());
        }
        return message;
    }

    private static String[] words(Message<byte[]> message) {
        return new String(message.getData(), StandardCharsets.UTF_8).split(":", 3);
    }

    private static int number(Message<byte[]> message) {
        return Integer.parseInt(words(message)[1]);
    }

    private static String text(MessageId id) {
        MessageIdAdv one = (MessageIdAdv) id;
        return one.getLedgerId() + ":" + one.getEntryId() + ":" + one.getPartitionIndex() + ":" + one.getBatchIndex();
    }

    private void handle(String name, Message<byte[]> message, Command command) throws PulsarClientException {
        String ack = command.text("ack", "each");
        boolean rejected = command.list("nacks").stream().anyMatch(one -> one.getAsInt() == number(message));
        if (rejected || ack.equals("nack")) {
            reject(name, message);
        } else if (ack.equals("each")) {
            acknowledge(name, message, command);
        } else if (ack.equals("later")) {
            consumers.get(name).reconsumeLater(message, command.number("delay_ms", 0), TimeUnit.MILLISECONDS);
            log("postponed", "consumer", name, "n", number(message));
        } else {
            held.get(name).add(message);
        }
    }

    private void reject(String name, Message<byte[]> message) {
        consumers.get(name).negativeAcknowledge(message);
        log("nacked", "consumer", name, "n", number(message));
    }

    private void acknowledge(String name, Message<byte[]> message, Command command) {
        Consumer<byte[]> consumer = consumers.get(name);
        boolean cumulative = command.is("cumulative");
        try {
            if (command.has("txn")) {
                consumer.acknowledgeAsync(message.getMessageId(), transaction(command)).get();
            } else if (cumulative) {
                consumer.acknowledgeCumulative(message);
            } else {
                consumer.acknowledge(message);
            }
            log("acked", "consumer", name, "n", number(message), "cumulative", cumulative);
        } catch (Exception fault) {
            log("ack_failed", "consumer", name, "n", number(message), "error", fault.toString());
        }
    }

    /** Remove the first `count` held messages, or all, and return them. */
    private List<Message<byte[]>> take(Command command) {
        List<Message<byte[]>> all = held.get(command.text("consumer", ""));
        List<Message<byte[]>> chosen = all.subList(0, Math.min(command.number("count", all.size()), all.size()));
        List<Message<byte[]>> taken = List.copyOf(chosen);
        chosen.clear();
        return taken;
    }

    private Object ackCommand(Command command) {
        List<Message<byte[]>> taken = take(command);
        for (Message<byte[]> message : command.is("cumulative") ? taken.subList(taken.size() - 1, taken.size()) : taken) {
            acknowledge(command.text("consumer", ""), message, command);
        }
        return taken.size();
    }

    private Object nackCommand(Command command) {
        List<Message<byte[]>> taken = take(command);
        taken.forEach(message -> reject(command.text("consumer", ""), message));
        return taken.size();
    }

    private Object redeliverAllCommand(Command command) {
        String name = command.text("consumer", "");
        consumers.get(name).redeliverUnacknowledgedMessages();
        held.get(name).clear();
        log("redeliver_all", "consumer", name);
        return null;
    }

    private Object seekCommand(Command command) throws PulsarClientException {
        String to = command.text("to", "");
        consumers.get(command.text("consumer", "")).seek(to.equals("earliest") ? MessageId.earliest : MessageId.latest);
        log("seek", "consumer", command.text("consumer", ""), "to", to);
        return null;
    }

    private Object unsubscribeCommand(Command command) throws PulsarClientException {
        consumers.remove(command.text("consumer", "")).unsubscribe();
        log("unsubscribed", "consumer", command.text("consumer", ""));
        return null;
    }

    private Object closeConsumerCommand(Command command) throws Exception {
        if (loops.containsKey(command.text("consumer", ""))) {
            stopCommand(command);
        }
        consumers.remove(command.text("consumer", "")).close();
        log("closed", "consumer", command.text("consumer", ""));
        return null;
    }

    /** Read messages with a reader from the start of the topic; return their number. */
    private Object readCommand(Command command) throws PulsarClientException {
        String name = command.text("reader", "");
        if (!readers.containsKey(name)) {
            readers.put(name, client().newReader().topic(command.text("topic", "")).readerName(name)
                    .startMessageId(MessageId.earliest).receiverQueueSize(command.number("queue", 1000)).create());
        }
        int got = 0;
        while (got < command.number("count", 0) && readers.get(name).hasMessageAvailable()) {
            readers.get(name).readNext(5, TimeUnit.SECONDS);
            got++;
        }
        return got;
    }

    /** Acknowledge the held messages of a consumer; the process ends without closing the client. */
    private Object exitCommand(Command command) {
        return ackCommand(command);
    }

    /** Close the client with its producers and consumers. */
    private Object closeCommand(Command command) throws Exception {
        loops.values().forEach(loop -> loop.over().set(true));
        for (Reader<byte[]> reader : readers.values()) {
            reader.close();
        }
        for (Consumer<byte[]> consumer : consumers.values()) {
            consumer.close();
        }
        for (Producer<byte[]> producer : producers.values()) {
            producer.close();
        }
        if (client != null) {
            client.closeAsync(); // the threads of the client need two seconds to end
        }
        return null;
    }
}
