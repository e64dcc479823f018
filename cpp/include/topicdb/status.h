// Outcomes of everything that can fail: Status and Result<T>.
//
// The core throws no exceptions. Programming errors are asserts. "Nothing more to read" is a value,
// not an error. Both types are [[nodiscard]]: code that ignores a failure does not compile.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace topicdb {

// These are stable: bindings map each to one exception class. Zero is success and never an error.
enum class Code {
  kOk = 0,
  kInvalidArgument = 1,  // an argument or option is wrong; nothing was changed
  kTopic = 2,            // malformed topic or filter
  kSchema = 3,           // the schema is malformed, too new, or not the stored one
  kNotFound = 4,         // there is no such database, file, slab, stream or cursor
  kLocked = 5,           // another process or handle has the shard or queue open for writing
  kReadOnly = 6,         // this handle cannot write
  kCorruption = 7,       // what is on disk is damaged or foreign
  kStorage = 8,          // the file system failed: full, I/O error, permissions
  kClosed = 9,           // the handle is closed
  kForked = 10,          // the handle was inherited by a forked child
  kInterrupted = 11,     // the caller asked to stop
  kConflict = 12,        // a transaction lost to another commit: no effect, a retry may succeed
  kPrecondition = 13,    // what a transaction requires is not so; a retry cannot help
  kQuota = 14,           // the database has reached its quota (deletes pass), or a queue is full
  kExists = 15,          // there is something at a path where something new is to be made
  kMissingShard = 16,    // the database was opened without a shard that this needs
  kNotLeader = 17,       // another replica of the shard leads, or none: nothing was done
  kUnknownOutcome = 18,  // the leader of a shard was lost: what was asked may be done, now or later
  kStale = 19,           // a replica has not come to the commit that a read asked for
  kCluster = 20,         // the sites of a cluster cannot change like this; nothing was done
};

// Success, or an error. Cheap to move. The message of an error says which path, topic or option it
// is about, and what to do. Threads may read one at the same time.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {
    assert(code != Code::kOk);
  }
  static Status Ok() { return {}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // Returns "<context>: <message>" with the same code. Success stays success.
  Status WithContext(const std::string& context) const;

  // Says at the call that it is intended to ignore this status, in a way that can be searched for.
  void IgnoreError() const {}

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// Each returns an error with the code of its name: TopicFault and the like that of the name before
// "Fault".
Status InvalidArgument(std::string message);
Status TopicFault(std::string message);
Status SchemaFault(std::string message);
Status NotFound(std::string message);
Status Locked(std::string message);
Status ReadOnly(std::string message);
Status Corruption(std::string message);
Status StorageFault(std::string message);
Status Closed(std::string message);
Status Forked(std::string message);
Status Interrupted();
Status Conflict(std::string message);
Status PreconditionFault(std::string message);
Status QuotaFault(std::string message);
Status ExistsFault(std::string message);
Status MissingShardFault(std::string message);
Status NotLeader(std::string message);
Status UnknownOutcome(std::string message);
Status Stale(std::string message);
Status ClusterFault(std::string message);

// A T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that functions can `return value;` and `return status;`.
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES for value, operator-> and operator*: ok()
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace topicdb

#define TOPICDB_CONCAT_INNER(a, b) a##b
#define TOPICDB_CONCAT(a, b) TOPICDB_CONCAT_INNER(a, b)

// Returns the Status of `expression` from the function if it is an error.
#define TOPICDB_RETURN_IF_ERROR(expression)                                              \
  do {                                                                                   \
    if (auto topicdb_status = (expression); !topicdb_status.ok()) return topicdb_status; \
  } while (false)

// `TOPICDB_ASSIGN_OR_RETURN(auto x, F());` declares x, or returns F's error from the function.
#define TOPICDB_ASSIGN_OR_RETURN(declaration, expression) \
  TOPICDB_ASSIGN_OR_RETURN_INNER(TOPICDB_CONCAT(topicdb_result_, __LINE__), declaration, expression)
#define TOPICDB_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                           \
  if (!result.ok()) return result.status();                             \
  declaration = std::move(result).value()
