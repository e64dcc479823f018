// Tells whether a path still leads to the file that it led to before.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "topicdb/status.h"

namespace topicdb {

// A path, and the file or directory that it led to when At was called. Whoever has the file open
// keeps a KnownFile of it, to notice later that the path leads to nothing or to something else:
// what is written to the file then is lost with it. Immutable, so any thread may use it. The file
// must stay open meanwhile, or be locked: otherwise a new file may get the number of the one that
// is gone.
class KnownFile {
 public:
  // Makes one of a file that is open, by its device and its number there.
  KnownFile(std::string path, dev_t device, ino_t number)
      : path_(std::move(path)), device_(device), number_(number) {}
  // Returns what the path leads to now. Returns kStorage if there is nothing, or if it cannot be
  // looked at.
  static Result<KnownFile> At(std::string path);

  const std::string& path() const { return path_; }
  // Returns OK if the path leads to the same file as before. Otherwise returns kStorage, which
  // names the path and says whether the file is gone or another one has its name. Takes a few
  // microseconds.
  Status CheckInPlace() const;

 private:
  std::string path_;
  dev_t device_;
  ino_t number_;
};

}  // namespace topicdb
