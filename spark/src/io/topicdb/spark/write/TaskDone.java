package io.topicdb.spark.write;

import io.topicdb.spark.types.Staged;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.WriteTaskResult;

/** What the commit has to know of a task. Immutable; goes from the task to the driver. */
record TaskDone(String job, Staged staged) implements Serializable {
  /**
   * Returns the message for Spark. Its class is one of Spark's, because Spark reads messages with a
   * class loader that does not know the JARs of sessions. What it holds is read by {@link #of}.
   */
  WriterCommitMessage toMessage() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream stream = new ObjectOutputStream(bytes)) {
      stream.writeObject(this);
    } catch (IOException error) {
      throw new IllegalStateException("the message of a task: " + error, error);
    }
    return new WriteTaskResult(new TaskCommitMessage(bytes.toByteArray()), null);
  }

  /** Returns what a message of {@link #toMessage} holds. */
  static TaskDone of(WriterCommitMessage message) {
    byte[] bytes = (byte[]) ((WriteTaskResult) message).commitMsg().obj();
    try (OwnClasses stream = new OwnClasses(new ByteArrayInputStream(bytes))) {
      return (TaskDone) stream.readObject();
    } catch (IOException | ClassNotFoundException error) {
      throw new IllegalStateException("the message of a task: " + error, error);
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
