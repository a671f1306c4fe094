package eco;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.RedeliveryBackoff;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.pulsar.annotation.PulsarListener;
import org.springframework.pulsar.core.PulsarProducerFactory;
import org.springframework.pulsar.core.PulsarTemplate;
import org.springframework.pulsar.listener.AckMode;

/**
 * A Spring Boot application with a dead letter topic and transactions. It prints one line per message that its
 * listeners received: the listener, the message and the number of deliveries.
 *
 * <p>Arguments are Spring's: --spring.pulsar.client.service-url, --spring.pulsar.defaults.topic.namespace, …
 */
@SpringBootApplication
public class Program {
    private static final String REJECTED = "order-3";
    private static final CountDownLatch ORDERS = new CountDownLatch(10 + 2);
    private static final CountDownLatch LETTERS = new CountDownLatch(1);
    private static final CountDownLatch COMMITTED = new CountDownLatch(3);
    private static final Map<String, Integer> RECEIVED = new ConcurrentSkipListMap<>();

    private static void received(String listener, String message, CountDownLatch latch) {
        RECEIVED.merge(listener + " " + message, 1, Integer::sum);
        latch.countDown();
    }

    @Bean
    static DeadLetterPolicy twoRedeliveries() {
        return DeadLetterPolicy.builder().maxRedeliverCount(2).deadLetterTopic("letters").build();
    }

    @Bean
    static RedeliveryBackoff oneSecond() {
        return MultiplierRedeliveryBackoff.builder().minDelayMs(1000).maxDelayMs(1000).build();
    }

    @PulsarListener(topics = "orders", subscriptionName = "audit", subscriptionType = SubscriptionType.Shared,
            ackMode = AckMode.RECORD, deadLetterPolicy = "twoRedeliveries",
            negativeAckRedeliveryBackoff = "oneSecond")
    void onOrder(String order) {
        received("order", order, ORDERS);
        if (order.equals(REJECTED)) {
            throw new IllegalArgumentException(order);
        }
    }

    @PulsarListener(topics = "letters", subscriptionName = "letters", ackMode = AckMode.RECORD)
    void onLetter(String order) {
        received("letter", order, LETTERS);
    }

    @PulsarListener(topics = "payments", subscriptionName = "audit", ackMode = AckMode.RECORD)
    void onPayment(String payment) {
        received("payment", payment, COMMITTED);
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        try (var context = SpringApplication.run(Program.class, arguments)) {
            PulsarProducerFactory<String> producers = context.getBean(PulsarProducerFactory.class);
            PulsarTemplate<String> template = new PulsarTemplate<>(producers);
            for (int n = 0; n < 10; n++) {
                template.send("orders", "order-" + n);
            }
            PulsarTemplate<String> transactional = new PulsarTemplate<>(producers);
            transactional.transactions().setEnabled(true);
            transactional.executeInTransaction(one -> {
                for (int n = 0; n < 3; n++) {
                    one.send("payments", "payment-" + n);
                }
                return null;
            });
            try {
                transactional.executeInTransaction(one -> {
                    one.send("payments", "payment-of-nothing");
                    throw new IllegalStateException("the transaction is aborted");
                });
            } catch (IllegalStateException expected) {
                RECEIVED.merge("aborted", 1, Integer::sum);
            }
            for (CountDownLatch latch : List.of(ORDERS, LETTERS, COMMITTED)) {
                if (!latch.await(60, TimeUnit.SECONDS)) {
                    throw new IllegalStateException(latch.getCount() + " messages are missing: " + RECEIVED);
                }
            }
        }
        RECEIVED.forEach((message, deliveries) -> System.out.println(message + " " + deliveries));
    }
}
