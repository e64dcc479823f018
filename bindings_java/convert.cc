#include "convert.h"

#include "guard.h"

namespace topicdb::java {

namespace {

template <typename T>
T NotNull(T object) {
  if (object == nullptr) throw JavaPending{};
  return object;
}

}  // namespace

void CheckJava(JNIEnv* env) {
  if (env->ExceptionCheck() != 0) throw JavaPending{};
}

std::string TextOf(JNIEnv* env, jbyteArray bytes) {
  std::string text(static_cast<std::size_t>(env->GetArrayLength(bytes)), '\0');
  env->GetByteArrayRegion(bytes, 0, static_cast<jsize>(text.size()),
                          reinterpret_cast<jbyte*>(text.data()));
  CheckJava(env);
  return text;
}

jbyteArray BytesOf(JNIEnv* env, std::string_view text) {
  const auto size = static_cast<jsize>(text.size());
  auto* const bytes = NotNull(env->NewByteArray(size));
  env->SetByteArrayRegion(bytes, 0, size, reinterpret_cast<const jbyte*>(text.data()));
  return bytes;
}

std::vector<std::string> TextsOf(JNIEnv* env, jobjectArray texts) {
  std::vector<std::string> found;
  for (jsize i = 0; i < env->GetArrayLength(texts); ++i) {
    const auto bytes = static_cast<jbyteArray>(NotNull(env->GetObjectArrayElement(texts, i)));
    found.push_back(TextOf(env, bytes));
    env->DeleteLocalRef(bytes);  // the JVM promises room for few of them
  }
  return found;
}

jobjectArray ArrayOf(JNIEnv* env, const std::vector<std::string_view>& texts) {
  auto* const type = NotNull(env->FindClass("[B"));
  auto* const array = NotNull(env->NewObjectArray(static_cast<jsize>(texts.size()), type, nullptr));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto* const bytes = BytesOf(env, texts[i]);
    env->SetObjectArrayElement(array, static_cast<jsize>(i), bytes);
    env->DeleteLocalRef(bytes);
  }
  return array;
}

std::vector<jlong> NumbersOf(JNIEnv* env, jlongArray numbers) {
  std::vector<jlong> found(static_cast<std::size_t>(env->GetArrayLength(numbers)));
  env->GetLongArrayRegion(numbers, 0, static_cast<jsize>(found.size()), found.data());
  CheckJava(env);
  return found;
}

jlongArray ArrayOf(JNIEnv* env, const std::vector<jlong>& numbers) {
  const auto size = static_cast<jsize>(numbers.size());
  auto* const array = NotNull(env->NewLongArray(size));
  env->SetLongArrayRegion(array, 0, size, numbers.data());
  return array;
}

jobjectArray PairOf(JNIEnv* env, jobject first, jobject second) {
  auto* const type = NotNull(env->FindClass("java/lang/Object"));
  auto* const pair = NotNull(env->NewObjectArray(2, type, nullptr));
  env->SetObjectArrayElement(pair, 0, first);
  env->SetObjectArrayElement(pair, 1, second);
  return pair;
}

std::vector<Filter> FiltersOf(JNIEnv* env, jobjectArray texts) {
  if (texts == nullptr) return {Filter::Everything()};
  std::vector<Filter> filters;
  for (const std::string& text : TextsOf(env, texts)) {
    filters.push_back(Unwrap(Filter::Parse(text)));
  }
  return filters;
}

std::map<std::uint32_t, Serial> SerialsOf(JNIEnv* env, jlongArray pairs) {
  std::map<std::uint32_t, Serial> serials;
  const std::vector<jlong> numbers = NumbersOf(env, pairs);
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    serials[static_cast<std::uint32_t>(numbers[i])] =
        Serial{static_cast<std::uint64_t>(numbers[i + 1])};
  }
  return serials;
}

std::optional<std::int64_t> OptionalOf(jlong number) {
  return number == kAbsent ? std::nullopt : std::optional<std::int64_t>(number);
}

jlong NumberOf(std::optional<std::int64_t> number) { return number.value_or(kAbsent); }

}  // namespace topicdb::java
