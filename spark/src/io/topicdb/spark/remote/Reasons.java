package io.topicdb.spark.remote;

import io.topicdb.spark.select.Servers;
import java.util.List;
import java.util.Locale;

/** Says in plain words why a connection fails, as topicdb.remote.addresses does. Has no state. */
final class Reasons {
  /**
   * What a text of gRPC or TLS means.
   *
   * @param isTls whether the address wants TLS; null: both
   * @param meaning with HOST for the host
   */
  private record Reason(List<String> words, Boolean isTls, String meaning) {}

  private static final String HOST = "{host}";

  private static final List<Reason> REASONS =
      List.of(
          new Reason(
              List.of("connection refused"),
              null,
              "nobody listens there: is topicdb serve running, at this host and port?"),
          new Reason(List.of("unable to resolve host"), null, "the name {host} is not known"),
          new Reason(
              List.of("cannot verify hostname", "hostname", "subject alternative"),
              true,
              "the certificate of the server is not for {host}: connect by the name that it has, or"
                  + " give that as tls_certificate_name"),
          new Reason(
              List.of("pkix path", "unable to find valid certification"),
              true,
              "the certificate of the server is of nobody that this client trusts: give the"
                  + " certificate of who made it as tls_root_certs"),
          new Reason(
              List.of("unrecognized ssl message", "not an ssl"),
              true,
              "the server speaks no TLS there: use grpc://"),
          new Reason(
              List.of("certificate_required", "handshake_failure", "bad_certificate", "unknown_ca"),
              true,
              "the server wants a certificate of the client that it trusts: give tls_certificate and"
                  + " tls_key"),
          new Reason(
              List.of("end of stream", "connection reset", "broken pipe", "closed"),
              false,
              "the server closed the connection at once: it may want TLS (grpc+tls://), or be"
                  + " another program"),
          new Reason(
              List.of("end of stream", "connection reset", "broken pipe", "closed", "handshake"),
              true,
              "the server closed the connection at once: it may want a certificate of the client"
                  + " (tls_certificate, tls_key), or be another program"),
          new Reason(
              List.of("deadline"),
              null,
              "there was no answer in time: it may be another program, or the way there is shut"));

  private Reasons() {}

  /** Returns the text for the first call to a server, which has failed with this one. */
  static String whyNot(String address, String text) {
    String low = text.toLowerCase(Locale.ROOT);
    boolean isTls = Servers.isTls(address);
    for (Reason reason : REASONS) {
      boolean fits = reason.isTls() == null || reason.isTls() == isTls;
      if (fits && reason.words().stream().anyMatch(low::contains)) {
        String meaning = reason.meaning().replace(HOST, Servers.hostOf(address));
        return address + ": " + meaning + " (" + text + ")";
      }
    }
    return address + ": " + text;
  }
}
