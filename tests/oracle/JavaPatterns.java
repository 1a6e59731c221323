import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntPredicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Answers what regular expressions of Java match: a line of JSON in, `{pattern, inputs}`, a line of JSON out, `{error: description}`, or
 * `{matches: [whether each input matches as a whole], found: [the first match in each as its groups, or null]}`.
 *
 * With the argument `tables`: the properties Alphabetic and Ideographic, and all scripts, as `config/java_patterns/unicode_tables.py`
 * has them: a name, a tab, and ranges as numbers to the base 36: the distance from the last range, and a plus sign with the length.
 */
public class JavaPatterns {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            tables();
            return;
        }
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(mapper.writeValueAsString(answer(mapper.readValue(line, Map.class))));
        }
    }

    private static Map<String, Object> answer(Map<?, ?> asked) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            Pattern pattern = Pattern.compile((String) asked.get("pattern"));
            List<Boolean> matches = new ArrayList<>();
            List<Object> found = new ArrayList<>();
            for (Object input : (List<?>) asked.get("inputs")) {
                matches.add(pattern.matcher((String) input).matches());
                Matcher matcher = pattern.matcher((String) input);
                if (!matcher.find()) {
                    found.add(null);
                    continue;
                }
                String[] groups = new String[matcher.groupCount() + 1];
                for (int group = 0; group < groups.length; group++) groups[group] = matcher.group(group);
                found.add(Arrays.asList(groups));
            }
            answer.put("matches", matches);
            answer.put("found", found);
        } catch (PatternSyntaxException error) {
            answer.put("error", error.getDescription());
        }
        return answer;
    }

    private static void tables() {
        print("Alphabetic", Character::isAlphabetic);
        print("Ideographic", Character::isIdeographic);
        for (Character.UnicodeScript script : Character.UnicodeScript.values()) {
            if (script != Character.UnicodeScript.UNKNOWN) print(script.name(), code -> Character.UnicodeScript.of(code) == script);
        }
    }

    private static void print(String name, IntPredicate holds) {
        StringBuilder text = new StringBuilder();
        int last = 0;
        for (int code = 0; code <= Character.MAX_CODE_POINT; code++) {
            if (!holds.test(code)) continue;
            int first = code;
            while (code < Character.MAX_CODE_POINT && holds.test(code + 1)) code++;
            text.append(text.length() == 0 ? "" : " ").append(Integer.toString(first - last, 36));
            if (code > first) text.append("+").append(Integer.toString(code - first, 36));
            last = code;
        }
        System.out.println(name + "\t" + text);
    }
}
