// Receives client metrics in Apache Kafka, which has no receiver of its own: what cannot be read it refuses.

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;

public class TelemetryReceiver implements MetricsReporter, ClientTelemetry {
    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> {
            try {
                MetricsData.parseFrom(payload.data());
            } catch (java.io.IOException error) {
                throw new IllegalArgumentException(error);
            }
        };
    }

    public void init(List<KafkaMetric> metrics) { }

    public void metricChange(KafkaMetric metric) { }

    public void metricRemoval(KafkaMetric metric) { }

    public void close() { }

    public void configure(Map<String, ?> settings) { }
}
