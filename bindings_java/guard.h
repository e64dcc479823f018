// Carries errors from C++ into Java. Every function that Java calls runs its body in Guarded.
#pragma once

#include <jni.h>

#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "topicdb/status.h"

namespace topicdb::java {

// Stands for an exception that Java has pending already. Guarded only ends the call for it.
struct JavaPending : std::exception {};

// Carries a Status out of the body of Guarded.
struct Failure : std::exception {
  explicit Failure(Status failed) : status(std::move(failed)) {}
  Status status;
};

// Makes a TopicDbException pending for the code of `status`.
void Throw(JNIEnv* env, const Status& status);
// Makes a TopicDbException pending for an exception of C++ that nobody expects.
void ThrowUnexpected(JNIEnv* env, std::string_view what);

// Returns what `body` returns. Whatever it throws becomes a pending exception of Java, and then the
// result is zero: no exception of C++ leaves the library.
template <typename Body>
auto Guarded(JNIEnv* env, Body body) noexcept -> decltype(body()) {
  using Returned = decltype(body());
  try {
    return body();
  } catch (const JavaPending&) {
    return Returned();
  } catch (const Failure& failure) {
    Throw(env, failure.status);
  } catch (const std::bad_alloc&) {
    ThrowUnexpected(env, "there is not enough memory outside the heap of the JVM");
  } catch (const std::exception& error) {
    ThrowUnexpected(env, error.what());
  } catch (...) {
    ThrowUnexpected(env, "an unknown exception");
  }
  return Returned();
}

// Check throws a Failure unless the status is a success. Unwrap does so, too, and otherwise returns
// the value.
inline void Check(const Status& status) {
  if (!status.ok()) throw Failure(status);
}

template <typename T>
T Unwrap(Result<T> result) {
  if (!result.ok()) throw Failure(result.status());
  return std::move(result).value();
}

}  // namespace topicdb::java
