#include "store/view/sealer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace topicdb {
namespace {

// Calls a function of the test in each turn, and counts the turns.
class Shard : public Sealable {
 public:
  explicit Shard(std::function<Result<bool>(int turn)> seal) : seal_(std::move(seal)) {}

  Result<bool> SealDue() override {
    Result<bool> more = seal_(turns_ + 1);
    const std::lock_guard<std::mutex> lock(mutex_);
    ++turns_;
    changed_.notify_all();
    return more;
  }
  void WaitForTurns(int turns) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return turns_ >= turns; });
  }
  int turns() const { return turns_; }

 private:
  const std::function<Result<bool>(int turn)> seal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> turns_{0};
};

void WaitUntilIdle(const Sealer& sealer, const Shard& shard) {
  while (sealer.IsBusyWith(&shard)) std::this_thread::yield();
}

TEST(Sealer, WhoHasMoreComesAgainUntilItHasNot) {
  Sealer sealer;
  Shard shard([](int turn) { return turn < 5; });
  sealer.Wake(&shard);
  shard.WaitForTurns(5);
  WaitUntilIdle(sealer, shard);
  EXPECT_EQ(shard.turns(), 5);
  sealer.Wake(&shard);
  shard.WaitForTurns(6);
  sealer.Forget(&shard);
}

TEST(Sealer, OneWithoutEndDoesNotKeepAnotherFromItsTurn) {
  Sealer sealer;
  Shard endless([](int) { return true; });
  Shard other([](int) { return false; });
  sealer.Wake(&endless);
  endless.WaitForTurns(3);
  sealer.Wake(&other);
  other.WaitForTurns(1);
  endless.WaitForTurns(endless.turns() + 3);
  EXPECT_EQ(other.turns(), 1);
  sealer.Forget(&endless);
  sealer.Forget(&other);
}

TEST(Sealer, WhatFailsWaitsUntilItIsWoken) {
  Sealer sealer;
  Shard shard([](int) -> Result<bool> { return Corruption("a page"); });
  sealer.Wake(&shard);
  shard.WaitForTurns(1);
  WaitUntilIdle(sealer, shard);
  EXPECT_EQ(shard.turns(), 1);
  sealer.Wake(&shard);
  shard.WaitForTurns(2);
  sealer.Forget(&shard);
}

TEST(Sealer, WhatIsForgottenWhileItSealsDoesNotComeAgain) {
  Sealer sealer;
  std::atomic<bool> is_in{false};
  std::atomic<bool> may_go{false};
  Shard shard([&](int) {
    is_in = true;
    is_in.notify_all();
    may_go.wait(false);
    return true;
  });
  sealer.Wake(&shard);
  is_in.wait(false);
  EXPECT_TRUE(sealer.IsBusyWith(&shard));
  std::thread forgetting([&] { sealer.Forget(&shard); });
  // Forget has told the sealer, and waits for the turn to end.
  WaitUntilIdle(sealer, shard);
  may_go = true;
  may_go.notify_all();
  forgetting.join();
  EXPECT_FALSE(sealer.IsBusyWith(&shard));
  EXPECT_EQ(shard.turns(), 1);
}

}  // namespace
}  // namespace topicdb
