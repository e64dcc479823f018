// A log for tests of what reads one.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "queue/memory_log.h"

namespace topicdb {

// A log in memory of which a part can be lost, and whose reading can fail.
class BadLog : public MemoryLog {
 public:
  BadLog() : MemoryLog(1) {}
  std::unique_ptr<QueueLogReader> NewReader() override;

  SequenceRange lost;
  std::uint64_t fails_from = UINT64_MAX;
};

class BadLogReader : public QueueLogReader {
 public:
  BadLogReader(const BadLog* log, std::unique_ptr<QueueLogReader> reader)
      : log_(*log), reader_(std::move(reader)) {}

  Result<ReadEvent> Load(const LogPosition& position) override {
    if (position.sequence >= log_.fails_from) return StorageFault("the disk is gone");
    if (position.sequence < log_.lost.first || position.sequence >= log_.lost.end()) {
      return reader_->Load(position);
    }
    lost_ = {"a file", "is damaged", position.sequence, log_.lost.end()};
    return ReadEvent::kLost;
  }
  const Block& block() const override { return reader_->block(); }
  const std::shared_ptr<const void>& owner() const override { return reader_->owner(); }
  std::uint64_t segment() const override { return reader_->segment(); }
  LogCount count_before() const override { return reader_->count_before(); }
  const LogDamage& lost() const override { return lost_; }

 private:
  const BadLog& log_;
  const std::unique_ptr<QueueLogReader> reader_;
  LogDamage lost_;
};

inline std::unique_ptr<QueueLogReader> BadLog::NewReader() {
  return std::make_unique<BadLogReader>(this, MemoryLog::NewReader());
}

}  // namespace topicdb
