import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedKeyManager;
import javax.net.ssl.X509ExtendedTrustManager;
import javax.net.ssl.X509TrustManager;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

/**
 * Makes key stores, and reads them as Apache Kafka does: a line of JSON in, a line of JSON out. Stores, keys and certificates are in
 * base64, certificates of answers are the first half of SHA-256 digests in hexadecimal.
 *
 *   {make: type, password, properties, entries: [{alias, key, algorithm, password, chain}]}   answers {store}; without a key an
 *       entry is a trusted certificate; properties are the system's while the store is made
 *   {trust: store, type, password}                                answers {certificates} that a trust manager has, sorted
 *   {keys: store, type, password, key_password, version}   answers {certificates} that a server shows in a handshake
 *   {choose: store, type, password, algorithm}                    answers {alias} that a server's key manager chooses
 *
 * or {error: messages of the exception and its causes}.
 */
public class KeyStores {
    private static final Base64.Decoder DECODER = Base64.getDecoder();

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer(mapper.readValue(line, Map.class), answer);
            } catch (Exception error) {
                List<String> messages = new ArrayList<>();
                for (Throwable each = error; each != null; each = each.getCause()) messages.add(each.getMessage());
                answer.put("error", messages);
            }
            System.out.println(mapper.writeValueAsString(answer));
        }
    }

    private static void answer(Map<?, ?> asked, Map<String, Object> answer) throws Exception {
        if (asked.containsKey("make")) answer.put("store", Base64.getEncoder().encodeToString(make(asked)));
        else if (asked.containsKey("trust")) answer.put("certificates", trusted(asked));
        else if (asked.containsKey("keys")) answer.put("certificates", shown(asked));
        else answer.put("alias", chosen(asked));
    }

    private static byte[] make(Map<?, ?> asked) throws Exception {
        KeyStore store = KeyStore.getInstance((String) asked.get("make"));
        store.load(null, null);
        for (Object each : (List<?>) asked.get("entries")) {
            Map<?, ?> entry = (Map<?, ?>) each;
            List<Certificate> chain = new ArrayList<>();
            for (Object one : (List<?>) entry.get("chain"))
                chain.add(CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(bytes(one))));
            String alias = (String) entry.get("alias");
            if (entry.get("key") == null) {
                store.setCertificateEntry(alias, chain.get(0));
            } else {
                PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(bytes(entry.get("key")));
                PrivateKey key = KeyFactory.getInstance((String) entry.get("algorithm")).generatePrivate(spec);
                store.setKeyEntry(alias, key, characters(entry.get("password")), chain.toArray(new Certificate[0]));
            }
        }
        Map<?, ?> properties = (Map<?, ?>) asked.get("properties");
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        properties.forEach((name, value) -> System.setProperty((String) name, (String) value));
        store.store(out, characters(asked.get("password")));
        properties.forEach((name, value) -> System.clearProperty((String) name));
        return out.toByteArray();
    }

    private static List<String> trusted(Map<?, ?> asked) throws Exception {
        Path file = written(asked.get("trust"));
        try (DefaultSslEngineFactory factory = new DefaultSslEngineFactory()) {
            factory.configure(settings("truststore", file, asked));
            TrustManagerFactory managers = TrustManagerFactory.getInstance("PKIX");
            managers.init(factory.truststore());
            return digests(((X509TrustManager) managers.getTrustManagers()[0]).getAcceptedIssuers(), true);
        } finally {
            Files.delete(file);
        }
    }

    private static List<String> shown(Map<?, ?> asked) throws Exception {
        Path file = written(asked.get("keys"));
        try (DefaultSslEngineFactory factory = new DefaultSslEngineFactory()) {
            factory.configure(settings("keystore", file, asked));
            SSLEngine server = factory.createServerSslEngine("localhost", 1);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, new TrustManager[] {new TrustsAll()}, null);
            SSLEngine client = context.createSSLEngine("localhost", 1);
            client.setUseClientMode(true);
            client.setEnabledProtocols(new String[] {(String) asked.get("version")});
            ByteBuffer up = ByteBuffer.allocate(65536), down = ByteBuffer.allocate(65536), none = ByteBuffer.allocate(0);
            for (int round = 0; round < 40; round++) {
                move(client, server, up, none);
                move(server, client, down, none);
            }
            return digests(client.getSession().getPeerCertificates(), false);
        } finally {
            Files.delete(file);
        }
    }

    private static void move(SSLEngine from, SSLEngine to, ByteBuffer wire, ByteBuffer none) throws Exception {
        from.wrap(none, wire);
        run(from);
        wire.flip();
        to.unwrap(wire, ByteBuffer.allocate(65536));
        run(to);
        wire.compact();
    }

    private static void run(SSLEngine engine) {
        for (Runnable task = engine.getDelegatedTask(); task != null; task = engine.getDelegatedTask()) task.run();
    }

    private static String chosen(Map<?, ?> asked) throws Exception {
        KeyStore store = KeyStore.getInstance((String) asked.get("type"));
        char[] password = characters(asked.get("password"));
        store.load(new ByteArrayInputStream(bytes(asked.get("choose"))), password);
        KeyManagerFactory managers = KeyManagerFactory.getInstance("SunX509");
        managers.init(store, password);
        X509ExtendedKeyManager manager = (X509ExtendedKeyManager) managers.getKeyManagers()[0];
        return manager.chooseEngineServerAlias((String) asked.get("algorithm"), null, null);
    }

    private static Map<String, Object> settings(String store, Path file, Map<?, ?> asked) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("ssl.protocol", "TLSv1.3");
        settings.put("ssl.enabled.protocols", List.of("TLSv1.2", "TLSv1.3"));
        settings.put("ssl.keymanager.algorithm", "SunX509");
        settings.put("ssl.trustmanager.algorithm", "PKIX");
        settings.put("ssl." + store + ".type", asked.get("type"));
        settings.put("ssl." + store + ".location", file.toString());
        if (asked.get("password") != null) settings.put("ssl." + store + ".password", new Password((String) asked.get("password")));
        if (asked.get("key_password") != null) settings.put("ssl.key.password", new Password((String) asked.get("key_password")));
        return settings;
    }

    private static Path written(Object store) throws Exception {
        return Files.write(Files.createTempFile("store", ""), bytes(store));
    }

    private static byte[] bytes(Object text) {
        return DECODER.decode((String) text);
    }

    private static char[] characters(Object text) {
        return text == null ? null : ((String) text).toCharArray();
    }

    private static List<String> digests(Certificate[] certificates, boolean isSorted) throws Exception {
        List<String> found = new ArrayList<>();
        for (Certificate each : certificates) {
            StringBuilder text = new StringBuilder();
            for (byte octet : MessageDigest.getInstance("SHA-256").digest(each.getEncoded())) text.append(String.format("%02x", octet));
            found.add(text.substring(0, 32));
        }
        return isSorted ? new ArrayList<>(new TreeSet<>(found)) : found;
    }

    private static class TrustsAll extends X509ExtendedTrustManager {
        public void checkClientTrusted(X509Certificate[] chain, String type) {}
        public void checkServerTrusted(X509Certificate[] chain, String type) {}
        public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}
        public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}
        public void checkClientTrusted(X509Certificate[] chain, String type, java.net.Socket socket) {}
        public void checkServerTrusted(X509Certificate[] chain, String type, java.net.Socket socket) {}
        public X509Certificate[] getAcceptedIssuers() {
            return new X509Certificate[0];
        }
    }
}
