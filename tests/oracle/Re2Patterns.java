import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Answers what the regular expressions of consumer groups match in Apache Kafka 4.3.0, which uses RE2/J: a line of JSON in,
 * `{pattern, inputs}`, a line of JSON out: the description of the error, or a digit for each input, 1 where the whole of it matches.
 */
public class Re2Patterns {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(mapper.writeValueAsString(answer(mapper.readTree(line))));
        }
    }

    private static String answer(JsonNode asked) {
        try {
            Pattern pattern = Pattern.compile(asked.get("pattern").asText());
            StringBuilder matches = new StringBuilder();
            for (JsonNode input : asked.get("inputs")) matches.append(pattern.matcher(input.asText()).matches() ? "1" : "0");
            return matches.toString();
        } catch (PatternSyntaxException error) {
            return error.getDescription();
        }
    }
}
