import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * Counts the errors of responses as Apache Kafka's request metrics do. A line in: API key, version, and the response in
 * hexadecimal digits, separated by spaces. A line out: ERROR=count, sorted by name, separated by spaces; or, when Apache Kafka
 * cannot make sense of the response, "refused" and why.
 */
public class CountErrors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(counts(line.split(" ")));
        }
    }

    private static String counts(String[] words) {
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words.length > 2 ? words[2] : ""));
        Map<String, Integer> counts = new TreeMap<>();
        try {
            ApiKeys api = ApiKeys.forId(Integer.parseInt(words[0]));
            AbstractResponse response = AbstractResponse.parseResponse(api, bytes, Short.parseShort(words[1]));
            response.errorCounts().forEach((error, count) -> counts.put(error.name(), count));
        } catch (RuntimeException error) {
            return "refused " + error;
        }
        StringBuilder out = new StringBuilder();
        counts.forEach((name, count) -> out.append(name).append('=').append(count).append(' '));
        return out.toString().strip();
    }
}
