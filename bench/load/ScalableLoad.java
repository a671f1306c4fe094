import java.lang.reflect.Method;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.LongAdder;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.MessageId;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.PulsarClientException;
import org.apache.pulsar.client.api.v5.QueueConsumer;
import org.apache.pulsar.client.api.v5.StreamConsumer;
import org.apache.pulsar.client.api.v5.config.BatchingPolicy;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

/**
 * Load on a scalable topic with the V5 client: {@code ScalableLoad MEASUREMENT URL TOPIC TYPE SECONDS [SPLIT-URL]}.
 *
 * <p>MEASUREMENT is latency, rate or split; TYPE is stream or queue. It prints one line for each figure: its name, a tab
 * and its numbers (milliseconds, or messages per second).
 */
public final class ScalableLoad {
    private static final int SIZE = 100;
    private static final int KEYS = 1000;
    private static final int PENDING = 5000;

    private final PulsarClient client;
    private final String topic;
    private final String type;
    private final double seconds;

    private ScalableLoad(String url, String topic, String type, String seconds) throws PulsarClientException {
        this.client = PulsarClient.builder().serviceUrl(url).build();
        this.topic = topic;
        this.type = type;
        this.seconds = Double.parseDouble(seconds);
    }

    public static void main(String[] words) throws Exception {
        ScalableLoad load = new ScalableLoad(words[1], words[2], words[3], words[4]);
        switch (words[0]) {
            case "latency" -> load.latency();
            case "rate" -> load.rate();
            default -> load.split(words[5]);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** The operations that the two types of consumers have in common. */
    private interface Receiver {
        Message<byte[]> receive() throws PulsarClientException;

        void acknowledge(MessageId id);
    }

    private Receiver subscribe() throws PulsarClientException {
        SubscriptionInitialPosition first = SubscriptionInitialPosition.EARLIEST;
        if (type.equals("queue")) {
            QueueConsumer<byte[]> queue = client.newQueueConsumer(Schema.bytes()).topic(topic).subscriptionName("queue")
                    .subscriptionInitialPosition(first).receiverQueueSize(10_000).subscribe();
            return new Receiver() {
                public Message<byte[]> receive() throws PulsarClientException {
                    return queue.receive(Duration.ofSeconds(20));
                }

                public void acknowledge(MessageId id) {
                    queue.acknowledge(id);
                }
            };
        }
        StreamConsumer<byte[]> stream = client.newStreamConsumer(Schema.bytes()).topic(topic).subscriptionName("stream")
                .subscriptionInitialPosition(first).subscribe();
        return new Receiver() {
            public Message<byte[]> receive() throws PulsarClientException {
                return stream.receive(Duration.ofSeconds(20));
            }

            public void acknowledge(MessageId id) {
                stream.acknowledgeCumulative(id);
            }
        };
    }

    private Producer<byte[]> producer(boolean batching) throws PulsarClientException {
        var builder = client.newProducer(Schema.bytes()).topic(topic);
        return batching ? builder.create() : builder.batchingPolicy(BatchingPolicy.ofDisabled()).create();
    }

    private static String key(int number) {
        return "key-" + number % KEYS;
    }

    /** A payload that begins with the time of its creation. */
    private static byte[] payload() {
        return ByteBuffer.allocate(SIZE).putLong(System.nanoTime()).array();
    }

    private static double age(Message<byte[]> message) {
        return (System.nanoTime() - ByteBuffer.wrap(message.value()).getLong()) / 1e6;
    }

    private static void print(String name, double[] values) {
        Arrays.sort(values);
        System.out.printf("%s\t%.2f / %.2f ms%n", name, values[values.length / 2], values[values.length * 99 / 100]);
    }

    /** Send messages one by one, and receive each one before the next. The first half is the warm-up. */
    private void latency() throws Exception {
        int count = 4000;
        double[] sends = new double[count / 2];
        double[] deliveries = new double[count / 2];
        Receiver consumer = subscribe();
        Producer<byte[]> producer = producer(false);
        for (int number = 0; number < count; number++) {
            long began = System.nanoTime();
            producer.newMessage().key(key(number)).value(payload()).send();
            double sent = (System.nanoTime() - began) / 1e6;
            Message<byte[]> message = consumer.receive();
            consumer.acknowledge(message.id());
            if (number >= count / 2) {
                sends[number - count / 2] = sent;
            }
        }
        for (int number = 0; number < count; number++) {
            producer.async().newMessage().key(key(number)).value(payload()).send();
            Message<byte[]> message = consumer.receive();
            if (number >= count / 2) {
                deliveries[number - count / 2] = age(message);
            }
            consumer.acknowledge(message.id());
        }
        print("synchronous send p50 / p99", sends);
        print("end to end p50 / p99", deliveries);
    }

    /** Send and receive as many messages as possible, in batches. The first quarter of the time is the warm-up. */
    private void rate() throws Exception {
        LongAdder published = new LongAdder();
        LongAdder received = new LongAdder();
        Receiver consumer = subscribe();
        Producer<byte[]> producer = producer(true);
        Semaphore pending = new Semaphore(PENDING);
        start(() -> {
            for (int number = 0;; number++) {
                pending.acquire();
                producer.async().newMessage().key(key(number)).value(payload()).send().whenComplete((id, fault) -> {
                    pending.release();
                    published.increment();
                });
            }
        });
        start(() -> {
            while (true) {
                Message<byte[]> message = consumer.receive();
                if (message != null) {
                    consumer.acknowledge(message.id());
                    received.increment();
                }
            }
        });
        Thread.sleep((long) (seconds * 250));
        long began = System.nanoTime();
        published.reset();
        received.reset();
        Thread.sleep((long) (seconds * 750));
        double elapsed = (System.nanoTime() - began) / 1e9;
        System.out.printf("published\t%.0f%n", published.sum() / elapsed);
        System.out.printf("received\t%.0f%n", received.sum() / elapsed);
    }

    private static int status(HttpClient http, HttpRequest.Builder request) throws Exception {
        return http.send(request.build(), HttpResponse.BodyHandlers.discarding()).statusCode();
    }

    /** Split segment 0 during a load of 500 messages per second. */
    private void split(String url) throws Exception {
        HttpClient http = HttpClient.newHttpClient();
        status(http, HttpRequest.newBuilder(URI.create(url))); // loads the classes of the client
        Receiver consumer = subscribe();
        Producer<byte[]> producer = producer(false);
        producer.newMessage().key(key(0)).value(payload()).send();
        Message<byte[]> first = consumer.receive();
        int known = segment(first.id());
        consumer.acknowledge(first.id());
        long[] times = new long[3];
        CountDownLatch all = new CountDownLatch(2);
        start(() -> {
            for (int number = 0;; number++) {
                producer.async().newMessage().key(key(number)).value(payload()).send().whenComplete((id, fault) -> {
                    if (fault == null && segment(id) != known && times[1] == 0) {
                        times[1] = System.nanoTime();
                        all.countDown();
                    }
                });
                Thread.sleep(2);
            }
        });
        start(() -> {
            while (true) {
                Message<byte[]> message = consumer.receive();
                if (segment(message.id()) != known && times[2] == 0) {
                    times[2] = System.nanoTime();
                    all.countDown();
                }
                consumer.acknowledge(message.id());
            }
        });
        Thread.sleep(2000);
        times[0] = System.nanoTime();
        int status = status(http, HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.noBody()));
        if (status != 204) {
            throw new IllegalStateException("POST " + url + ": " + status);
        }
        all.await();
        System.out.printf("first receipt of a child\t%.0f ms%n", (times[1] - times[0]) / 1e6);
        System.out.printf("first message of a child\t%.0f ms%n", (times[2] - times[0]) / 1e6);
    }

    /** The segment of a message. The API of the client has no access to it. */
    private static int segment(MessageId id) {
        try {
            Method method = id.getClass().getDeclaredMethod("segmentId");
            method.setAccessible(true);
            return ((Number) method.invoke(id)).intValue();
        } catch (ReflectiveOperationException fault) {
            throw new IllegalStateException(fault);
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void start(Work work) {
        new Thread(() -> {
            try {
                work.run();
            } catch (Exception fault) {
                fault.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        }).start();
    }
}
