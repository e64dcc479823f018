// Uploads: databases whose objects Java reads.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert.h"
#include "guard.h"
#include "native.h"
#include "topicdb/database.h"
#include "topicdb/database/upload.h"

namespace topicdb::java {

namespace {

constexpr jint kVersion = JNI_VERSION_1_8;
constexpr jint kReferences = 4;  // of one call of Java

// Makes this thread one that may call Java, as long as it lives: the core reads from threads of its
// own, too.
class AttachedThread {
 public:
  explicit AttachedThread(JavaVM* machine) : machine_(machine) {
    void* found = nullptr;
    if (machine_->GetEnv(&found, kVersion) == JNI_OK) {
      env_ = static_cast<JNIEnv*>(found);
      return;
    }
    is_mine_ = machine_->AttachCurrentThreadAsDaemon(&found, nullptr) == JNI_OK;
    if (is_mine_) env_ = static_cast<JNIEnv*>(found);
  }
  ~AttachedThread() {
    if (is_mine_) machine_->DetachCurrentThread();
  }
  AttachedThread(const AttachedThread&) = delete;
  AttachedThread& operator=(const AttachedThread&) = delete;
  // Returns null if the JVM takes no more threads.
  JNIEnv* env() const { return env_; }

 private:
  JavaVM* const machine_;
  JNIEnv* env_ = nullptr;
  bool is_mine_ = false;
};

// Reads objects by an ObjectSource of Java. The database that is opened there owns it. Thread-safe.
class JavaObjects : public ObjectReader {
 public:
  // `native` is the class Native.
  JavaObjects(JNIEnv* env, jclass native, jobject source) {
    env->GetJavaVM(&machine_);
    auto* const type = env->GetObjectClass(source);
    read_ = env->GetMethodID(type, "read", "([BJJ[B)[B");
    CheckJava(env);
    ask_ = env->GetStaticMethodID(native, "isInterrupted", "()Z");
    CheckJava(env);
    native_ = static_cast<jclass>(env->NewGlobalRef(native));
    source_ = env->NewGlobalRef(source);
    if (native_ == nullptr || source_ == nullptr) throw std::bad_alloc();
  }
  ~JavaObjects() override {
    const AttachedThread thread(machine_);
    if (thread.env() == nullptr) return;
    thread.env()->DeleteGlobalRef(source_);
    thread.env()->DeleteGlobalRef(native_);
  }

  Status Read(const StoredObject& object, std::uint64_t offset, std::span<char> to) override {
    const AttachedThread thread(machine_);
    JNIEnv* const env = thread.env();
    if (env == nullptr || env->PushLocalFrame(kReferences) != 0) {
      return StorageFault("reading " + object.name + ": the JVM takes no more threads");
    }
    Status status;
    try {
      status = ReadWith(env, object, offset, to);
    } catch (const JavaPending&) {
      env->ExceptionClear();
      status = StorageFault("reading " + object.name + ": the JVM has no memory for it");
    }
    env->PopLocalFrame(nullptr);
    return status;
  }

  // Only a thread of Java can be interrupted. Those of the core end with what they do for it.
  bool IsInterrupted() override {
    void* found = nullptr;
    if (machine_->GetEnv(&found, kVersion) != JNI_OK) return false;
    auto* const env = static_cast<JNIEnv*>(found);
    const bool is_interrupted = env->CallStaticBooleanMethod(native_, ask_) != 0;
    if (env->ExceptionCheck() == 0) return is_interrupted;
    env->ExceptionClear();
    return false;
  }

 private:
  Status ReadWith(JNIEnv* env, const StoredObject& object, std::uint64_t offset,
                  std::span<char> to) {
    const auto size = static_cast<jsize>(to.size());
    auto* const name = BytesOf(env, object.name);
    auto* const bytes = env->NewByteArray(size);
    CheckJava(env);
    auto* const problem = static_cast<jbyteArray>(env->CallObjectMethod(
        source_, read_, name, static_cast<jlong>(object.bytes), static_cast<jlong>(offset), bytes));
    CheckJava(env);
    if (problem != nullptr) {
      const std::string text = TextOf(env, problem);
      return {static_cast<Code>(text.at(0)), text.substr(1)};
    }
    env->GetByteArrayRegion(bytes, 0, size, reinterpret_cast<jbyte*>(to.data()));
    CheckJava(env);
    return Status::Ok();
  }

  JavaVM* machine_ = nullptr;
  jmethodID read_ = nullptr;
  jobject source_ = nullptr;
  jmethodID ask_ = nullptr;
  jclass native_ = nullptr;
};

}  // namespace

}  // namespace topicdb::java

using namespace topicdb;        // NOLINT: the functions below must stand outside
using namespace topicdb::java;  // NOLINT

TOPICDB_NATIVE(jlong, openUpload)
(JNIEnv* env, jclass native, jbyteArray url, jbyteArray name, jbyteArray manifest, jobject objects,
 jint shard) {
  return Guarded(env, [&] {
    OpenOptions options;
    if (shard >= 0) options.only_shards = {static_cast<std::uint32_t>(shard)};
    const Upload upload{TextOf(env, url), TextOf(env, name), TextOf(env, manifest),
                        std::make_shared<JavaObjects>(env, native, objects)};
    return HandleOf(Unwrap(Database::OpenUpload(upload, options)).release());
  });
}
