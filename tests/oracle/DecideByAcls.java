import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import kafka.security.authorizer.AclAuthorizer;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Decides as Apache Kafka's AclAuthorizer: a line of JSON in, a line of digits out, 1 for what is allowed.
 *
 * In: `super_users`, `everyone` (allow.everyone.if.no.acl.found), `acls` as [type, name, pattern type, principal, host, operation,
 * permission], `questions` as [principal, host, operation, type, name], whose name is null for any resource of the type.
 */
public class DecideByAcls {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(mapper.readTree(line)));
        }
    }

    private static String answer(JsonNode given) throws Exception {
        AclAuthorizer authorizer = new AclAuthorizer();
        Set<KafkaPrincipal> superUsers = new HashSet<>();
        given.get("super_users").forEach(each -> superUsers.add(SecurityUtils.parseKafkaPrincipal(each.asText())));
        set(authorizer, "superUsers", scalaSet(superUsers));
        set(authorizer, "shouldAllowEveryoneIfNoAclIsFound", given.get("everyone").asBoolean());
        Map<ResourcePattern, Set<AclEntry>> entries = new HashMap<>();
        given.get("acls").forEach(acl -> {
            ResourcePattern pattern = new ResourcePattern(
                ResourceType.fromCode((byte) acl.get(0).asInt()), acl.get(1).asText(),
                PatternType.fromCode((byte) acl.get(2).asInt()));
            AccessControlEntry entry = new AccessControlEntry(
                acl.get(3).asText(), acl.get(4).asText(), AclOperation.fromCode((byte) acl.get(5).asInt()),
                AclPermissionType.fromCode((byte) acl.get(6).asInt()));
            entries.computeIfAbsent(pattern, key -> new HashSet<>()).add(new AclEntry(entry));
        });
        entries.forEach((pattern, some) -> authorizer.updateCache(
            pattern, new AclAuthorizer.VersionedAcls(scalaSet(some), 0)));
        StringBuilder answers = new StringBuilder();
        for (JsonNode question : given.get("questions")) {
            AuthorizableRequestContext client = client(question.get(0).asText(), question.get(1).asText());
            AclOperation operation = AclOperation.fromCode((byte) question.get(2).asInt());
            ResourceType type = ResourceType.fromCode((byte) question.get(3).asInt());
            AuthorizationResult result;
            if (question.get(4).isNull()) {
                result = authorizer.authorizeByResourceType(client, operation, type);
            } else {
                ResourcePattern resource = new ResourcePattern(type, question.get(4).asText(), PatternType.LITERAL);
                result = authorizer.authorize(client, List.of(new Action(operation, resource, 1, false, false))).get(0);
            }
            answers.append(result == AuthorizationResult.ALLOWED ? '1' : '0');
        }
        return answers.toString();
    }

    private static void set(AclAuthorizer authorizer, String name, Object value) throws Exception {
        Field field = AclAuthorizer.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(authorizer, value);
    }

    private static <T> scala.collection.immutable.Set<T> scalaSet(Set<T> some) {
        return scala.jdk.javaapi.CollectionConverters.asScala(some).toSet();
    }

    private static AuthorizableRequestContext client(String principal, String host) {
        return new AuthorizableRequestContext() {
            public String listenerName() { return "PLAINTEXT"; }
            public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
            public KafkaPrincipal principal() { return SecurityUtils.parseKafkaPrincipal(principal); }
            public InetAddress clientAddress() {
                try {
                    return InetAddress.getByName(host);
                } catch (java.net.UnknownHostException error) {
                    throw new IllegalArgumentException(error);
                }
            }
            public int requestType() { return 3; }
            public int requestVersion() { return 12; }
            public String clientId() { return "client"; }
            public int correlationId() { return 1; }
        };
    }
}
