package eco;

import io.quarkus.runtime.Quarkus;
import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.annotations.QuarkusMain;
import jakarta.inject.Inject;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.eclipse.microprofile.reactive.messaging.Channel;
import org.eclipse.microprofile.reactive.messaging.Emitter;
import org.eclipse.microprofile.reactive.messaging.Incoming;
import org.eclipse.microprofile.reactive.messaging.Outgoing;

/**
 * Routes orders to invoices with SmallRye's connector, and prints the invoices, one per line.
 *
 * <p>The service URL is the system property pulsar.client.serviceUrl.
 */
@QuarkusMain
public class Program implements QuarkusApplication {
    private static final int COUNT = 20;
    private static final List<String> INVOICES = new CopyOnWriteArrayList<>();
    private static final CountDownLatch ALL = new CountDownLatch(COUNT);

    @Inject
    @Channel("requests")
    Emitter<String> requests;

    public static void main(String[] arguments) {
        Quarkus.run(Program.class, arguments);
    }

    @Incoming("orders")
    @Outgoing("invoices")
    String bill(String order) {
        return "invoice of " + order;
    }

    @Incoming("billed")
    void collect(String invoice) {
        INVOICES.add(invoice);
        ALL.countDown();
    }

    @Override
    public int run(String... arguments) throws InterruptedException {
        for (int n = 0; n < COUNT; n++) {
            requests.send("order-" + n).toCompletableFuture().join();
        }
        if (!ALL.await(60, TimeUnit.SECONDS)) {
            System.err.println(ALL.getCount() + " invoices are missing");
            return 1;
        }
        INVOICES.forEach(System.out::println);
        return 0;
    }
}
