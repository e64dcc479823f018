package io.topicdb.spark.write;

import io.topicdb.spark.types.Staged;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The message of a task to the commit. Immutable; goes from the task to the driver. */
record TaskDone(String job, Staged staged) implements WriterCommitMessage {
  /**
   * Returns the message of a task as one of this class. Spark reads messages with the class loader
   * of the executor, if that is in the same JVM: then there are two classes of this name.
   */
  static TaskDone of(WriterCommitMessage message) {
    if (message instanceof TaskDone done) {
      return done;
    }
    try {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      try (ObjectOutputStream stream = new ObjectOutputStream(bytes)) {
        stream.writeObject(message);
      }
      try (OwnClasses stream = new OwnClasses(new ByteArrayInputStream(bytes.toByteArray()))) {
        return (TaskDone) stream.readObject();
      }
    } catch (IOException | ClassNotFoundException error) {
      throw new IllegalStateException("no message of a task: " + message, error);
    }
  }

  /** Reads objects with the classes of this class loader. */
  private static final class OwnClasses extends ObjectInputStream {
    OwnClasses(InputStream stream) throws IOException {
      super(stream);
    }

    @Override
    protected Class<?> resolveClass(ObjectStreamClass description)
        throws IOException, ClassNotFoundException {
      return Class.forName(description.getName(), false, TaskDone.class.getClassLoader());
    }
  }
}
