#include "guard.h"

#include "convert.h"

namespace topicdb::java {

namespace {

constexpr jint kUnexpected = -1;  // TopicDbException.UNEXPECTED

void ThrowCoded(JNIEnv* env, jint code, std::string_view text) {
  if (env->ExceptionCheck() != 0) return;
  auto* const type = env->FindClass("io/topicdb/spark/core/TopicDbException");
  if (type == nullptr) return;
  auto* const make =
      env->GetStaticMethodID(type, "of", "(I[B)Lio/topicdb/spark/core/TopicDbException;");
  if (make == nullptr) return;
  auto* const bytes = env->NewByteArray(static_cast<jsize>(text.size()));
  if (bytes == nullptr) return;
  env->SetByteArrayRegion(bytes, 0, static_cast<jsize>(text.size()),
                          reinterpret_cast<const jbyte*>(text.data()));
  auto* const error = env->CallStaticObjectMethod(type, make, code, bytes);
  if (error != nullptr) env->Throw(static_cast<jthrowable>(error));
}

}  // namespace

void Throw(JNIEnv* env, const Status& status) {
  ThrowCoded(env, static_cast<jint>(status.code()), status.message());
}

void ThrowUnexpected(JNIEnv* env, std::string_view what) { ThrowCoded(env, kUnexpected, what); }

}  // namespace topicdb::java
