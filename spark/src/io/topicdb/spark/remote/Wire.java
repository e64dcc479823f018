package io.topicdb.spark.remote;

import io.topicdb.spark.core.Slice;
import io.topicdb.spark.select.Json;
import io.topicdb.spark.types.Slab;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Encodes the arguments of calls, and decodes results, in the form of docs/reference/serve.md: the
 * size of a JSON, the JSON, and the bytes that it refers to. Has no state.
 *
 * <p>Lists and tuples are lists, dicts are maps, numbers are Long or Double. A batch is the bytes of
 * an encapsulated message of Arrow.
 */
final class Wire {
  private static final int SIZE_BYTES = 4;
  private static final int ALIGNMENT = 8;
  /** The names of the layouts, by the numbers that the core has for them. */
  private static final List<String> LAYOUTS = List.of("", "skipstream", "columnar");

  /** A tuple, where the protocol tells one from a list. Its items may be null. */
  record Tuple(List<?> items) {}

  private Wire() {}

  /** Returns the bytes of a list of arguments. */
  static byte[] encode(List<?> values) {
    StringBuilder json = new StringBuilder();
    ByteArrayOutputStream blobs = new ByteArrayOutputStream();
    put(json, blobs, values);
    while ((SIZE_BYTES + json.toString().getBytes(StandardCharsets.UTF_8).length) % ALIGNMENT != 0) {
      json.append(' ');
    }
    byte[] text = json.toString().getBytes(StandardCharsets.UTF_8);
    return ByteBuffer.allocate(SIZE_BYTES + text.length + blobs.size())
        .order(ByteOrder.LITTLE_ENDIAN)
        .putInt(text.length)
        .put(text)
        .put(blobs.toByteArray())
        .array();
  }

  private static void put(StringBuilder json, ByteArrayOutputStream blobs, Object value) {
    if (value == null || value instanceof Number || value instanceof Boolean) {
      json.append(value);
    } else if (value instanceof String text) {
      json.append(Json.quoted(text));
    } else if (value instanceof byte[] bytes) {
      json.append("{\"bytes\":[").append(blobs.size()).append(',').append(bytes.length).append("]}");
      blobs.writeBytes(bytes);
    } else if (value instanceof Slice slice) {
      json.append("{\"slice\":");
      put(json, blobs, fieldsOf(slice));
      json.append('}');
    } else if (value instanceof Map<?, ?> map) {
      List<Object> pairs = new ArrayList<>();
      map.forEach((key, item) -> pairs.add(List.of(key, item)));
      json.append("{\"dict\":");
      put(json, blobs, pairs);
      json.append('}');
    } else if (value instanceof Tuple tuple) {
      json.append("{\"tuple\":");
      put(json, blobs, tuple.items());
      json.append('}');
    } else if (value instanceof List<?> list) {
      json.append('[');
      String separator = "";
      for (Object item : list) {
        json.append(separator);
        put(json, blobs, item);
        separator = ",";
      }
      json.append(']');
    } else {
      throw new IllegalArgumentException(value.getClass() + " does not travel");
    }
  }

  /** Returns the value of these bytes. Throws IllegalArgumentException if they are malformed. */
  static Object decode(byte[] data) {
    ByteBuffer buffer = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
    if (data.length < SIZE_BYTES) {
      throw malformed();
    }
    int size = buffer.getInt();
    if (size < 0 || size > data.length - SIZE_BYTES) {
      throw malformed();
    }
    Object json = Json.parse(new String(data, SIZE_BYTES, size, StandardCharsets.UTF_8));
    try {
      return value(json, data, SIZE_BYTES + size);
    } catch (ClassCastException | IndexOutOfBoundsException | NullPointerException error) {
      throw malformed();
    }
  }

  private static Object value(Object json, byte[] data, int blobs) {
    if (json instanceof List<?> list) {
      List<Object> values = new ArrayList<>();
      list.forEach(item -> values.add(value(item, data, blobs)));
      return values;
    }
    if (!(json instanceof Map<?, ?> map)) {
      return json;
    }
    Object kind = map.keySet().iterator().next();
    List<?> content = (List<?>) map.get(kind);
    if (kind.equals("tuple")) {
      return value(content, data, blobs);
    }
    if (kind.equals("dict")) {
      Map<Object, Object> values = new LinkedHashMap<>();
      for (Object pair : content) {
        List<?> both = (List<?>) pair;
        values.put(value(both.get(0), data, blobs), value(both.get(1), data, blobs));
      }
      return values;
    }
    if (kind.equals("bytes") || kind.equals("batch")) {
      int offset = Math.toIntExact((Long) content.get(0));
      int size = Math.toIntExact((Long) content.get(1));
      byte[] bytes = new byte[size];
      System.arraycopy(data, blobs + offset, bytes, 0, size);
      return bytes;
    }
    throw malformed();
  }

  /** Returns the fields of a slice in the order of the protocol. */
  private static List<Object> fieldsOf(Slice slice) {
    List<Object> fields = new ArrayList<>();
    fields.add((long) slice.slab().shard());
    fields.add(slice.slab().retentionClass());
    fields.add((long) slice.slab().generation());
    fields.add(slice.after());
    fields.add(slice.until());
    fields.add(slice.start() == Slice.ABSENT ? null : slice.start());
    fields.add(slice.end() == Slice.ABSENT ? null : slice.end());
    fields.add(slice.messages());
    fields.add(slice.bytes());
    fields.add(LAYOUTS.get((int) slice.layout()));
    return fields;
  }

  /** Returns the slice that has these fields. */
  static Slice sliceOf(List<?> fields) {
    int layout = LAYOUTS.indexOf((String) fields.get(9));
    return new Slice(
        slabOf(fields),
        (Long) fields.get(3),
        (Long) fields.get(4),
        fields.get(5) == null ? Slice.ABSENT : (Long) fields.get(5),
        fields.get(6) == null ? Slice.ABSENT : (Long) fields.get(6),
        (Long) fields.get(7),
        (Long) fields.get(8),
        layout);
  }

  /** Returns the slab that has these fields, or begins with them. */
  static Slab slabOf(List<?> fields) {
    return new Slab(
        Math.toIntExact((Long) fields.get(0)),
        (String) fields.get(1),
        Math.toIntExact((Long) fields.get(2)));
  }

  private static IllegalArgumentException malformed() {
    return new IllegalArgumentException("a malformed message");
  }
}
