import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.MessageId;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.PulsarClientException;
import org.apache.pulsar.client.api.v5.QueueConsumer;
import org.apache.pulsar.client.api.v5.StreamConsumer;
import org.apache.pulsar.client.api.v5.Transaction;
import org.apache.pulsar.client.api.v5.config.BackoffPolicy;
import org.apache.pulsar.client.api.v5.config.BatchingPolicy;
import org.apache.pulsar.client.api.v5.config.ConnectionPolicy;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.config.TransactionPolicy;
import org.apache.pulsar.client.api.v5.schema.Schema;

/**
 * The load of the crash trials on scalable topics: {@code LoadV5 SERVICE_URL}, until its input ends.
 *
 * <p>It prints an event per line; `scalable_trial.py` reads them. Errors of operations are expected, because the broker
 * is killed: their outcome is unknown, and nothing is printed. After its input has ended, nothing is sent any more. The
 * consumers go on until they have every message with a receipt, and new consumers read both topics from the beginning.
 */
public final class LoadV5 extends CrashLoad {
    private static final String LOAD = "topic://public/default/load";
    private static final String TXN = "topic://public/default/txn";
    private static final int PENDING = 100;
    private static final int KEYS = 20;
    private static final int TXN_KEYS = 4;
    private static final int TXN_SECONDS = 3;
    private static final int SILENCE_S = 5;
    private static final int DRAIN_S = 100;

    private final PulsarClient client;
    private final Set<Integer> confirmed = ConcurrentHashMap.newKeySet();
    private final Set<Integer> streamed = ConcurrentHashMap.newKeySet();
    private final Set<Integer> queued = ConcurrentHashMap.newKeySet();
    private volatile boolean sending = true;
    private volatile boolean consuming = true;

    private LoadV5(String serviceUrl) throws PulsarClientException {
        client = PulsarClient.builder()
                .serviceUrl(serviceUrl)
                .operationTimeout(Duration.ofSeconds(20))
                .connectionPolicy(ConnectionPolicy.builder()
                        .connectionBackoff(BackoffPolicy.exponential(Duration.ofMillis(20), Duration.ofMillis(200)))
                        .build())
                .transactionPolicy(
                        TransactionPolicy.builder().timeout(Duration.ofSeconds(TXN_SECONDS)).build())
                .build();
    }

    public static void main(String[] words) throws Exception {
        LoadV5 load = new LoadV5(words[0]);
        List<Thread> senders = List.of(start(load::produce), start(load::transactions));
        List<Thread> consumers = List.of(
                start(() -> load.stream("s1")), start(() -> load.stream("s2")), start(load::queue));
        waitForEndOfInput();
        load.sending = false;
        for (Thread thread : senders) {
            thread.join(TimeUnit.SECONDS.toMillis(40));
        }
        load.waitForConsumers();
        load.consuming = false;
        for (Thread thread : consumers) {
            thread.join(TimeUnit.SECONDS.toMillis(20));
        }
        load.read("STORED\tload", LOAD, "judge");
        load.read("STORED\ttxn", TXN, "judge");
        load.read("LEFT\ttxn", LOAD, "txn");
        OUT.println("END");
        Runtime.getRuntime().halt(0);
    }

    private void waitForConsumers() throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(DRAIN_S);
        while (System.nanoTime() < until && !(streamed.containsAll(confirmed) && queued.containsAll(confirmed))) {
            Thread.sleep(100);
        }
    }

    private Producer<String> producer(String topic) throws PulsarClientException {
        return client.newProducer(Schema.string()).topic(topic).sendTimeout(Duration.ofSeconds(60))
                .batchingPolicy(BatchingPolicy.ofDisabled()).create();
    }

    private void produce() throws Exception {
        Producer<String> producer = producer(LOAD);
        Semaphore pending = new Semaphore(PENDING);
        for (int number = 0; sending; number++) {
            int sent = number;
            pending.acquire();
            producer.async().newMessage().key("k" + number % KEYS).value(Integer.toString(number)).send()
                    .whenComplete((id, fault) -> {
                        pending.release();
                        if (fault == null) {
                            confirmed.add(sent);
                            OUT.println("SENT\t" + sent);
                        }
                    });
            if (number % KEYS == 0) {
                Thread.sleep(20);
            }
        }
        pending.tryAcquire(PENDING, 30, TimeUnit.SECONDS);
    }

    private void stream(String name) throws Exception {
        StreamConsumer<String> consumer = client.newStreamConsumer(Schema.string()).topic(LOAD)
                .subscriptionName("stream").consumerName(name)
                .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe();
        while (consuming) {
            Message<String> message = consumer.receive(Duration.ofMillis(200));
            if (message != null) {
                OUT.println("RECEIVED\tstream\t" + message.value());
                streamed.add(Integer.parseInt(message.value()));
                consumer.acknowledgeCumulative(message.id());
            }
        }
    }

    private void queue() throws Exception {
        QueueConsumer<String> consumer = queueConsumer(LOAD, "queue");
        while (consuming) {
            Message<String> message = consumer.receive(Duration.ofMillis(200));
            if (message != null) {
                OUT.println("RECEIVED\tqueue\t" + message.value());
                queued.add(Integer.parseInt(message.value()));
                consumer.acknowledge(message.id());
            }
        }
    }

    private QueueConsumer<String> queueConsumer(String topic, String subscription) throws PulsarClientException {
        return client.newQueueConsumer(Schema.string()).topic(topic).subscriptionName(subscription)
                .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe();
    }

    /** Each transaction publishes its number with several keys, on all segments, and acknowledges a message. */
    private void transactions() throws Exception {
        Producer<String> producer = producer(TXN);
        QueueConsumer<String> consumer = queueConsumer(LOAD, "txn");
        for (int number = 0; sending; number++) {
            Message<String> message = consumer.receive(Duration.ofMillis(200));
            if (message != null) {
                OUT.println("RECEIVED\ttxn\t" + message.value());
                transaction(number, message, producer, consumer);
            }
        }
        consumer.close();
    }

    private void transaction(
            int number, Message<String> message, Producer<String> producer, QueueConsumer<String> consumer) {
        boolean commit = number % 4 != 0;
        try {
            Transaction txn = client.newTransactionAsync().get(TXN_SECONDS, TimeUnit.SECONDS);
            var sends = new ArrayList<java.util.concurrent.CompletableFuture<MessageId>>();
            for (int key = 0; key < TXN_KEYS; key++) {
                sends.add(producer.async().newMessage().transaction(txn).key("k" + key)
                        .value(Integer.toString(number)).send());
            }
            for (var send : sends) {
                send.get(TXN_SECONDS, TimeUnit.SECONDS);
            }
            consumer.acknowledge(message.id(), txn);
            if (commit) {
                txn.async().commit().get(TXN_SECONDS, TimeUnit.SECONDS);
                OUT.println("COMMITTED\t" + number + "\t" + message.value());
            } else {
                txn.async().abort().get(TXN_SECONDS, TimeUnit.SECONDS);
                OUT.println("ABORTED\t" + number);
            }
        } catch (Exception fault) {
            consumer.negativeAcknowledge(message.id());
        }
    }

    /** Prints all messages of a subscription. Open transactions hide messages until their timeout. */
    private void read(String kind, String topic, String subscription) throws PulsarClientException {
        QueueConsumer<String> consumer = queueConsumer(topic, subscription);
        Message<String> message = consumer.receive(Duration.ofSeconds(SILENCE_S));
        while (message != null) {
            OUT.println(kind + "\t" + message.value() + "\t" + message.key().orElse(""));
            consumer.acknowledge(message.id());
            message = consumer.receive(Duration.ofSeconds(SILENCE_S));
        }
    }
}
