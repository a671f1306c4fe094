import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * The load of the crash trials: {@code Load SERVICE_URL}, until its input ends.
 *
 * <p>It prints an event per line; `trial.py` reads them. Errors of operations are expected, because the broker is
 * killed: their outcome is unknown, and nothing is printed.
 */
public final class Load extends CrashLoad {
    private static final int PENDING = 200;
    private static final int TXN_SECONDS = 3;

    private final PulsarClient client;
    private volatile boolean stopped;

    private Load(String serviceUrl) throws PulsarClientException {
        client = PulsarClient.builder()
                .serviceUrl(serviceUrl)
                .enableTransaction(true)
                .startingBackoffInterval(20, TimeUnit.MILLISECONDS)
                .maxBackoffInterval(200, TimeUnit.MILLISECONDS)
                .operationTimeout(60, TimeUnit.SECONDS)
                .build();
    }

    public static void main(String[] words) throws Exception {
        Load load = new Load(words[0]);
        Thread[] threads = {
            start(() -> load.produce("public/default/plain", true)),
            start(() -> load.produce("public/default/single", false)),
            start(() -> load.produce("public/dedup/once", true)),
            start(() -> load.consume("public/default/plain", "individual", false)),
            start(() -> load.consume("public/dedup/once", "cumulative", true)),
            start(load::transactions),
        };
        waitForEndOfInput();
        load.stopped = true;
        for (Thread thread : threads) {
            thread.join(TimeUnit.SECONDS.toMillis(20));
        }
        OUT.println("END");
        Runtime.getRuntime().halt(0);
    }

    private static String id(Message<byte[]> message) {
        return id((MessageIdAdv) message.getMessageId());
    }

    private static String id(MessageIdAdv id) {
        return id.getLedgerId() + ":" + id.getEntryId() + ":" + id.getBatchIndex();
    }

    private void produce(String topic, boolean batching) throws Exception {
        Producer<byte[]> producer = producer(topic, batching).producerName("producer-" + topic).create();
        Semaphore pending = new Semaphore(PENDING);
        for (int number = 0; !stopped; number++) {
            int sent = number;
            pending.acquire();
            producer.newMessage().sequenceId(number).value(Integer.toString(number).getBytes()).sendAsync()
                    .whenComplete((id, fault) -> {
                        pending.release();
                        if (fault == null) {
                            OUT.println("SENT\t" + topic + "\t" + sent + "\t" + id((MessageIdAdv) id));
                        }
                    });
            if (number % PENDING == 0) {
                Thread.sleep(20);
            }
        }
        producer.flush();
    }

    private ProducerBuilder<byte[]> producer(String topic, boolean batching) {
        return client.newProducer().topic(topic).sendTimeout(0, TimeUnit.SECONDS).enableBatching(batching)
                .blockIfQueueFull(true);
    }

    private void consume(String topic, String subscription, boolean cumulative) throws Exception {
        Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName(subscription)
                .subscriptionType(cumulative ? SubscriptionType.Exclusive : SubscriptionType.Shared)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).isAckReceiptEnabled(true)
                .enableBatchIndexAcknowledgment(true).acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS).subscribe();
        for (int count = 0; !stopped; count++) {
            Message<byte[]> message = receive(consumer, subscription);
            if (message == null) {
                continue;
            }
            String id = id(message);
            boolean skipped = cumulative ? count % 10 != 0 : count % 7 == 3;
            if (!skipped) {
                (cumulative ? consumer.acknowledgeCumulativeAsync(message) : consumer.acknowledgeAsync(message))
                        .thenRun(() -> OUT.println("ACKED\t" + subscription + "\t" + id));
            }
        }
    }

    /**
     * Returns the next message, or null after a while. Until a consumer reconnects, its queue contains messages of the
     * broker that was killed, which the client removes when it reconnects. They are not received.
     */
    private Message<byte[]> receive(Consumer<byte[]> consumer, String subscription) throws Exception {
        if (!consumer.isConnected()) {
            Thread.sleep(5);
            return null;
        }
        Message<byte[]> message = consumer.receive(200, TimeUnit.MILLISECONDS);
        if (message != null) {
            OUT.println("RECEIVED\t" + subscription + "\t" + id(message));
        }
        return message;
    }

    /** Each transaction publishes its number on two topics and acknowledges a message of a third one. */
    private void transactions() throws Exception {
        Producer<byte[]> first = producer("public/default/txn-a", false).create();
        Producer<byte[]> second = producer("public/default/txn-b", false).create();
        Producer<byte[]> work = producer("public/default/work", false).create();
        Consumer<byte[]> consumer = client.newConsumer().topic("public/default/work").subscriptionName("txn")
                .subscriptionType(SubscriptionType.Shared)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        for (int number = 0; !stopped; number++) {
            byte[] value = Integer.toString(number).getBytes();
            if (work.isConnected()) {
                work.sendAsync(value);
            }
            Message<byte[]> message = receive(consumer, "txn");
            if (message != null) {
                transaction(number, message, Map.of("a", first, "b", second), consumer);
            }
        }
    }

    private void transaction(
            int number, Message<byte[]> message, Map<String, Producer<byte[]>> producers, Consumer<byte[]> consumer) {
        byte[] value = Integer.toString(number).getBytes();
        boolean commit = number % 4 != 0;
        try {
            Transaction txn = client.newTransaction().withTransactionTimeout(TXN_SECONDS, TimeUnit.SECONDS).build()
                    .get(TXN_SECONDS, TimeUnit.SECONDS);
            for (Producer<byte[]> producer : producers.values()) {
                producer.newMessage(txn).value(value).sendAsync().get(TXN_SECONDS, TimeUnit.SECONDS);
            }
            consumer.acknowledgeAsync(message.getMessageId(), txn).get(TXN_SECONDS, TimeUnit.SECONDS);
            if (commit) {
                txn.commit().get(TXN_SECONDS, TimeUnit.SECONDS);
                OUT.println("COMMITTED\t" + number + "\t" + id(message));
            } else {
                txn.abort().get(TXN_SECONDS, TimeUnit.SECONDS);
                OUT.println("ABORTED\t" + number + "\t" + id(message));
            }
        } catch (Exception fault) {
            consumer.negativeAcknowledge(message);
        }
    }
}
