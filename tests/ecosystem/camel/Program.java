import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.pulsar.PulsarComponent;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.pulsar.client.api.PulsarClient;

/**
 * Routes orders to invoices with Camel's default settings, and prints the invoices, one per line.
 *
 * <p>Arguments: SERVICE_URL NAMESPACE COUNT
 */
public final class Program {
    public static void main(String[] arguments) throws Exception {
        String namespace = "pulsar:persistent://" + arguments[1];
        int count = Integer.parseInt(arguments[2]);
        List<String> invoices = new ArrayList<>();
        CountDownLatch all = new CountDownLatch(count);
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
                DefaultCamelContext context = new DefaultCamelContext()) {
            context.getComponent("pulsar", PulsarComponent.class).setPulsarClient(client);
            context.addRoutes(new RouteBuilder() {
                @Override
                public void configure() {
                    from(namespace + "/orders").transform(body().prepend("invoice of ")).to(namespace + "/invoices");
                    from(namespace + "/invoices").process(exchange -> {
                        invoices.add(exchange.getMessage().getBody(String.class));
                        all.countDown();
                    });
                }
            });
            context.start();
            for (int n = 0; n < count; n++) {
                context.createProducerTemplate().sendBody(namespace + "/orders", "order-" + n);
            }
            if (!all.await(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException(all.getCount() + " invoices are missing");
            }
        }
        invoices.forEach(System.out::println);
    }
}
