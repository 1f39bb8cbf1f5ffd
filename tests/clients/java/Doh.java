import java.io.FileInputStream;
import java.net.InetAddress;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;
import okhttp3.Call;
import okhttp3.Connection;
import okhttp3.EventListener;
import okhttp3.HttpUrl;
import okhttp3.OkHttpClient;
import okhttp3.dnsoverhttps.DnsOverHttps;
import org.xbill.DNS.DClass;
import org.xbill.DNS.DohResolver;
import org.xbill.DNS.Message;
import org.xbill.DNS.Name;
import org.xbill.DNS.Record;
import org.xbill.DNS.Section;
import org.xbill.DNS.SimpleResolver;
import org.xbill.DNS.Type;

/** Asks by OkHttp's and dnsjava's resolvers; each line says who asked how and what came back. */
public final class Doh {
  public static void main(String[] words) throws Exception {
    String port = System.getenv("HTTPS");
    SSLContext context = trust(System.getenv("CA"));
    SSLContext.setDefault(context);
    okhttp(context, port);
    dnsjava(port);
    // Both keep threads that would live on.
    System.exit(0);
  }

  /** Asks with GET and POST, and says which version of HTTP was spoken. */
  private static void okhttp(SSLContext context, String port) throws Exception {
    EventListener listener = new EventListener() {
      @Override public void connectionAcquired(Call call, Connection connection) {
        System.out.println("okhttp speaks " + connection.protocol());
      }
    };
    OkHttpClient client = new OkHttpClient.Builder()
        .sslSocketFactory(context.getSocketFactory(), manager)
        .eventListener(listener)
        .build();
    for (boolean post : List.of(false, true)) {
      DnsOverHttps resolver = new DnsOverHttps.Builder()
          .client(client)
          .url(HttpUrl.get("https://" + System.getenv("NAME") + ":" + port + "/dns-query"))
          .bootstrapDnsHosts(InetAddress.getByName("127.0.0.1"))
          .resolvePrivateAddresses(true)
          .resolvePublicAddresses(true)
          .post(post)
          .build();
      System.out.println("okhttp post=" + post + " " + resolver.lookup("www.example.test"));
    }
  }

  /** Asks over HTTPS with GET and POST, and over UDP and TCP. */
  private static void dnsjava(String port) throws Exception {
    Record question = Record.newRecord(Name.fromString("www.example.test."), Type.A, DClass.IN);
    for (boolean post : List.of(false, true)) {
      DohResolver resolver = new DohResolver("https://localhost:" + port + "/dns-query");
      resolver.setUsePost(post);
      System.out.println("dnsjava post=" + post + " " + resolver.send(Message.newQuery(question)).getSection(Section.ANSWER));
    }
    for (boolean tcp : List.of(false, true)) {
      SimpleResolver resolver = new SimpleResolver("127.0.0.1");
      resolver.setPort(Integer.parseInt(System.getenv("DNS")));
      resolver.setTCP(tcp);
      System.out.println("dnsjava tcp=" + tcp + " " + resolver.send(Message.newQuery(question)).getSection(Section.ANSWER));
    }
  }

  /** What decides whether a server's certificate is good. */
  private static X509TrustManager manager;

  /** A context that trusts the certificate of a file, and nothing else. */
  private static SSLContext trust(String file) throws Exception {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    try (FileInputStream in = new FileInputStream(file)) {
      store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
    }
    TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(store);
    manager = (X509TrustManager) factory.getTrustManagers()[0];
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, factory.getTrustManagers(), null);
    return context;
  }
}
