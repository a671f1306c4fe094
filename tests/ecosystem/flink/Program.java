import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.restartstrategy.RestartStrategies;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.pulsar.sink.PulsarSink;
import org.apache.flink.connector.pulsar.source.PulsarSource;
import org.apache.flink.connector.pulsar.source.enumerator.cursor.StartCursor;
import org.apache.flink.connector.pulsar.source.enumerator.cursor.StopCursor;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Copies the messages of `orders` to `invoices` exactly once, on a MiniCluster in this process.
 *
 * <p>Arguments: SERVICE_URL ADMIN_URL NAMESPACE [fails]. With `fails` the job fails once, ten messages after a
 * checkpoint, and restarts from it.
 */
public final class Program {
    private static final AtomicInteger FAILURES_LEFT = new AtomicInteger();

    /** Slow enough for several checkpoints. */
    private static final class Bill implements MapFunction<String, String>, CheckpointListener {
        private boolean isCheckpointed;
        private int sinceCheckpoint;

        @Override
        public String map(String order) throws Exception {
            Thread.sleep(20);
            if (isCheckpointed && ++sinceCheckpoint == 10 && FAILURES_LEFT.compareAndSet(1, 0)) {
                throw new IllegalStateException("fails once");
            }
            return "invoice of " + order;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            isCheckpointed = true;
            sinceCheckpoint = 0;
        }
    }

    public static void main(String[] arguments) throws Exception {
        FAILURES_LEFT.set(arguments.length - 3);
        String namespace = "persistent://" + arguments[2];
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.enableCheckpointing(1000);
        environment.getCheckpointConfig().setMinPauseBetweenCheckpoints(1000);
        environment.setRestartStrategy(RestartStrategies.fixedDelayRestart(3, 100));
        PulsarSource<String> source = PulsarSource.builder()
                .setServiceUrl(arguments[0])
                .setAdminUrl(arguments[1])
                .setTopics(namespace + "/orders")
                .setSubscriptionName("flink")
                .setStartCursor(StartCursor.earliest())
                .setBoundedStopCursor(StopCursor.latest())
                .setDeserializationSchema(new SimpleStringSchema())
                .build();
        PulsarSink<String> sink = PulsarSink.builder()
                .setServiceUrl(arguments[0])
                .setAdminUrl(arguments[1])
                .setTopics(namespace + "/invoices")
                .setSerializationSchema(new SimpleStringSchema())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "orders").map(new Bill()).sinkTo(sink);
        environment.execute();
    }
}
