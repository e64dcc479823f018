// Converts arguments and results between Java and C++. Texts are arrays of bytes in UTF-8. All
// functions throw JavaPending if the JVM refuses.
#pragma once

#include <jni.h>

#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/topic.h"
#include "topicdb/types/numbers.h"

namespace topicdb::java {

// Stands for a bound that is absent: Slice.ABSENT.
inline constexpr jlong kAbsent = INT64_MIN;

// A handle of Java is the address of an object of C++.
static_assert(sizeof(jlong) == sizeof(void*));
template <typename T>
jlong HandleOf(T* object) {
  return std::bit_cast<jlong>(object);
}
template <typename T>
T& ObjectOf(jlong handle) {
  return *std::bit_cast<T*>(handle);
}

// Throws JavaPending if Java has an exception pending.
void CheckJava(JNIEnv* env);

std::string TextOf(JNIEnv* env, jbyteArray bytes);
jbyteArray BytesOf(JNIEnv* env, std::string_view text);
std::vector<std::string> TextsOf(JNIEnv* env, jobjectArray texts);
jobjectArray ArrayOf(JNIEnv* env, const std::vector<std::string_view>& texts);
std::vector<jlong> NumbersOf(JNIEnv* env, jlongArray numbers);
jlongArray ArrayOf(JNIEnv* env, const std::vector<jlong>& numbers);
// Returns an Object[] of two arrays.
jobjectArray PairOf(JNIEnv* env, jobject first, jobject second);

// Returns the filters of these texts, and for null the filter of every topic. Throws Failure with
// kTopic for one that is none.
std::vector<Filter> FiltersOf(JNIEnv* env, jobjectArray texts);

// Returns the serials of an array with shards and serials by turns.
std::map<std::uint32_t, Serial> SerialsOf(JNIEnv* env, jlongArray pairs);

std::optional<std::int64_t> OptionalOf(jlong number);
jlong NumberOf(std::optional<std::int64_t> number);

}  // namespace topicdb::java
