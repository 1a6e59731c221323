/*
 * Commands from outside to the clients of a program.
 *
 * Each line of standard input is a command, a JSON object: "id" of the answer, "client" that the command is for, "do" and what it
 * needs. Each line of standard output answers one: "id" and "value", or "error", the name of the exception's class, and "message".
 * The commands of one client run in order in a thread of its own; those of several run beside each other.
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

public final class CommandLoop {
    /** Carries out one command; what it returns is the "value" of the answer. */
    public interface Program {
        Object execute(JsonNode command) throws Exception;
    }

    private static final ObjectMapper JSON = new ObjectMapper();

    /** Until standard input ends; then the process ends. */
    public static void run(Program program) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what a library prints is no answer
        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            threads
                .computeIfAbsent(command.get("client").asText(), name -> Executors.newSingleThreadExecutor())
                .execute(() -> answer(program, command, answers));
        }
        System.exit(0);
    }

    /** The "config" of a command. */
    public static Properties config(JsonNode command) {
        Properties properties = new Properties();
        command.get("config").fields().forEachRemaining(one -> properties.put(one.getKey(), one.getValue().asText()));
        return properties;
    }

    private static void answer(Program program, JsonNode command, PrintStream answers) {
        Map<String, Object> answer = new HashMap<>();
        answer.put("id", command.get("id").asInt());
        try {
            answer.put("value", program.execute(command));
        } catch (Throwable caught) {
            Throwable error = caught instanceof ExecutionException ? caught.getCause() : caught;
            answer.put("error", error.getClass().getSimpleName());
            answer.put("message", String.valueOf(error.getMessage()));
        }
        try {
            String line = JSON.writeValueAsString(answer);
            synchronized (answers) {
                answers.println(line);
                answers.flush();
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }
}
