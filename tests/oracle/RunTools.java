import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs command line tools of Apache Kafka one after the other in this JVM: a line of JSON in, one out.
 *
 * In: `main` (the name of the class), `arguments`, `input` (its standard input). Out: `code` and `output`, standard error between
 * the lines of standard output. What a tool does to end the JVM ends the tool.
 */
public class RunTools {
    static class Ended extends RuntimeException {
        final int code;
        final String output;

        Ended(int code, String output) {
            super(null, null, false, false);
            this.code = code;
            this.output = output;
        }
    }

    private static final ByteArrayOutputStream printed = new ByteArrayOutputStream();
    /** The first end of the tool: some catch it, say that something is wrong, and end again. */
    private static volatile Ended ended;

    private static synchronized Ended end(int code) {
        if (ended == null) {
            ended = new Ended(code, printed.toString(StandardCharsets.UTF_8));
        }
        return ended;
    }

    public static void main(String[] ignored) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream answers = System.out;
        // Scala's console takes System.out when it is loaded: it must be one stream for all tools.
        PrintStream stream = new PrintStream(printed, true, "UTF-8");
        System.setOut(stream);
        System.setErr(stream);
        Exit.setExitProcedure((code, message) -> { throw end(code); });
        Exit.setHaltProcedure((code, message) -> { throw end(code); });
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JsonNode question = mapper.readTree(line);
            printed.reset();
            ended = null;
            System.setIn(new ByteArrayInputStream(question.get("input").asText().getBytes("UTF-8")));
            int code = run(question.get("main").asText(), mapper.convertValue(question.get("arguments"), String[].class));
            ObjectNode answer = mapper.createObjectNode();
            answer.put("code", ended == null ? code : ended.code);
            answer.put("output", ended == null ? printed.toString("UTF-8") : ended.output);
            answers.println(mapper.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static int run(String main, String[] arguments) throws Exception {
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException error) {
            if (ended == null) {
                error.getCause().printStackTrace();
            }
            return 1;
        }
    }
}
