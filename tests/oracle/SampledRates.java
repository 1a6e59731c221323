import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/**
 * Plays scripts on Apache Kafka's sampled rates and token buckets: a line of JSON in,
 * `{stat, window_ms, samples, bound, steps: [[what, value, at_ms], ...]}`, a line of JSON out, a list with an answer for each step:
 *
 *   record    the throttle time that the quota's violation asks for, and the same bounded by one window; 0 without a violation
 *   unrecord  0: the value is taken back, and no quota is checked
 *   strict    of a token bucket: the throttle time when it is exhausted already; else 0, and the value is recorded
 *   measure   the measured value, and of a rate the window that it is measured over
 */
public class SampledRates {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(mapper.writeValueAsString(play(mapper.readValue(line, Map.class))));
        }
    }

    private static List<Object> play(Map<?, ?> script) {
        long windowMs = ((Number) script.get("window_ms")).longValue();
        boolean isRate = script.get("stat").equals("rate");
        MeasurableStat stat = isRate ? new Rate() : new TokenBucket();
        MetricConfig config = new MetricConfig()
            .timeWindow(windowMs, TimeUnit.MILLISECONDS)
            .samples(((Number) script.get("samples")).intValue())
            .quota(new Quota(((Number) script.get("bound")).doubleValue(), true));
        Metrics metrics = new Metrics();
        Sensor sensor = metrics.sensor("sensor");
        sensor.add(metrics.metricName("value", "group"), stat, config);
        List<Object> answers = new ArrayList<>();
        for (Object each : (List<?>) script.get("steps")) {
            List<?> step = (List<?>) each;
            double value = ((Number) step.get(1)).doubleValue();
            long nowMs = ((Number) step.get(2)).longValue();
            try {
                switch ((String) step.get(0)) {
                    case "record":
                        sensor.record(value, nowMs);
                        answers.add(isRate ? List.of(0, 0) : List.of(0));
                        break;
                    case "unrecord":
                        sensor.record(-value, nowMs, false);
                        answers.add(List.of(0));
                        break;
                    case "strict":
                        sensor.checkQuotas(nowMs);
                        sensor.record(value, nowMs, false);
                        answers.add(List.of(0));
                        break;
                    default:
                        double measured = stat.measure(config, nowMs);
                        answers.add(isRate ? List.of(measured, ((Rate) stat).windowSize(config, nowMs)) : List.of(measured));
                }
            } catch (QuotaViolationException violation) {
                answers.add(isRate
                    ? List.of(
                        kafka.utils.QuotaUtils.throttleTime(violation, nowMs),
                        kafka.utils.QuotaUtils.boundedThrottleTime(violation, windowMs, nowMs))
                    : List.of(kafka.server.ControllerMutationQuotaManager.throttleTimeMs(violation, nowMs)));
            }
        }
        metrics.close();
        return answers;
    }
}
