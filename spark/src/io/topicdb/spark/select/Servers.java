package io.topicdb.spark.select;

import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;

/**
 * Servers that offer one database, and what a client shows to them. Immutable; goes from the driver,
 * which reads the files of certificates, to the tasks. {@link #toString} tells only the addresses.
 *
 * @param addresses of replicas of the database: grpc://host:port or grpc+tls://host:port
 * @param token null for servers without tokens
 * @param tlsRoots the PEM text of the authorities that vouch for the servers; null: well-known ones
 * @param tlsName the name in the certificates of the servers; null: the host
 * @param tlsCertificate the PEM text of the certificate of this client, or null
 * @param tlsKey the PEM text of its private key, or null
 */
public record Servers(
    List<String> addresses,
    String token,
    String tlsRoots,
    String tlsName,
    String tlsCertificate,
    String tlsKey)
    implements Serializable {
  private static final String CERTIFICATE = "-----BEGIN CERTIFICATE-----";
  private static final String KEY = "-----BEGIN PRIVATE KEY-----";
  private static final int PORT = 8815;
  private static final int PORT_MAX = 65_535;
  private static final String SEPARATOR = "://";
  private static final String PLAIN = "grpc";
  private static final String TLS = "grpc+tls";

  /**
   * Returns the servers that options name, and reads the files.
   *
   * @param values of the options, by name
   * @throws IllegalArgumentException names the option
   */
  static Servers of(Map<String, Object> values) {
    String remote = (String) values.get("remote");
    try {
      return parsed(remote, values);
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException(
          "option remote=" + Texts.quoted(remote) + ": " + error.getMessage());
    }
  }

  private static Servers parsed(String remote, Map<String, Object> values) {
    String token = (String) values.get("token");
    boolean isInsecure = (Boolean) values.getOrDefault("insecure", false);
    List<String> addresses = new ArrayList<>();
    for (String url : remote.split(",", -1)) {
      addresses.add(address(url.strip(), token != null && !isInsecure));
    }
    if (new HashSet<>(addresses).size() < addresses.size()) {
      throw new IllegalArgumentException(
          "remote: expected addresses, each once, got " + Texts.quoted(remote));
    }
    String certificate = (String) values.get("tls_certificate");
    String key = (String) values.get("tls_key");
    if ((certificate == null) != (key == null)) {
      throw new IllegalArgumentException("tls_certificate and tls_key: give both, or none");
    }
    return new Servers(
        List.copyOf(addresses),
        token,
        pem("tls_root_certs", (String) values.get("tls_root_certs"), CERTIFICATE),
        (String) values.get("tls_certificate_name"),
        pem("tls_certificate", certificate, CERTIFICATE),
        pem("tls_key", key, KEY));
  }

  private static String address(String url, boolean needsTls) {
    int separator = url.indexOf(SEPARATOR);
    String scheme = separator < 0 ? "" : url.substring(0, separator);
    String rest = separator < 0 ? "" : url.substring(separator + SEPARATOR.length());
    rest = rest.replaceAll("/+$", "");
    int colon = rest.lastIndexOf(':');
    boolean hasPort = colon >= 0 && rest.indexOf(']', colon) < 0;
    String host = hasPort ? rest.substring(0, colon) : rest;
    host = host.replaceFirst("^\\[", "").replaceFirst("\\]$", "");
    int port = hasPort ? port(rest.substring(colon + 1)) : PORT;
    if (!(scheme.equals(PLAIN) || scheme.equals(TLS)) || host.isEmpty() || port < 1) {
      throw new IllegalArgumentException(
          "url: expected grpc+tls://host:port or grpc://host:port, got " + Texts.quoted(url));
    }
    if (needsTls && scheme.equals(PLAIN) && !isLocal(host)) {
      throw new IllegalArgumentException(
          "url: " + url + " would send the token for everybody to read: use grpc+tls://, or"
              + " insecure=True");
    }
    return scheme + SEPARATOR + (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
  }

  /** Returns the number of a port, or 0 if the text is none. */
  private static int port(String text) {
    if (!text.matches("[0-9]{1,9}")) {
      return 0;
    }
    int port = Integer.parseInt(text);
    return port <= PORT_MAX ? port : 0;
  }

  private static boolean isLocal(String host) {
    return host.equals("localhost") || host.equals("::1") || host.matches("127(\\.[0-9]{1,3}){3}");
  }

  /** Returns the text of a file that must have this line, or null for no file. */
  private static String pem(String option, String file, String line) {
    if (file == null) {
      return null;
    }
    String text;
    try {
      text = Files.readString(Path.of(file), StandardCharsets.ISO_8859_1);
    } catch (IOException error) {
      throw new IllegalArgumentException(option + " " + file + ": cannot read it: " + error);
    }
    if (!text.contains(line)) {
      throw new IllegalArgumentException(
          option + " " + file + ": expected " + (line.equals(KEY)
              ? "a private key without a password in PKCS #8, as openssl pkcs8 -topk8 -nocrypt"
                  + " writes it"
              : "certificates, as PEM"));
    }
    return text;
  }

  /** Returns whether an address wants TLS. */
  public static boolean isTls(String address) {
    return address.startsWith(TLS + SEPARATOR);
  }

  /** Returns the host of an address, without brackets. */
  public static String hostOf(String address) {
    String host = address.substring(address.indexOf(SEPARATOR) + 3, address.lastIndexOf(':'));
    return host.replace("[", "").replace("]", "");
  }

  /** Returns the port of an address. */
  public static int portOf(String address) {
    return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
  }

  @Override
  public String toString() {
    return String.join(", ", addresses);
  }
}
