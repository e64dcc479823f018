// The load of the figures: CPU metrics of a server farm, as bench/workloads/metrics.py has them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "topicdb/message.h"

namespace topicdb::replication {

// Messages of 32,000 topics of 7 levels, each with 200 bytes every 10 seconds, in batches. The
// views that it hands out are valid as long as it lives.
class MetricsLoad {
 public:
  // Each turn has other values, and later timestamps.
  MetricsLoad(int batches, int rows, std::uint64_t turn = 0) {
    std::mt19937_64 random(kSeed + turn);
    const std::uint64_t count = static_cast<std::uint64_t>(batches) * rows;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, kTopics); ++i) {
      topics_.push_back(TopicOf(i * kStep % kTopics));
    }
    for (std::uint64_t i = 0; i < count; ++i) values_.push_back(ValueOf(&random));
    for (int batch = 0; batch < batches; ++batch) {
      std::vector<MessageView> views;
      for (int row = 0; row < rows; ++row) {
        const std::uint64_t i = static_cast<std::uint64_t>(batch) * rows + row;
        const auto time =
            static_cast<std::int64_t>(kStart + (turn * count + i) * (kPeriod / kTopics));
        views.push_back({topics_[i % topics_.size()], time, values_[i]});
      }
      batches_.push_back(std::move(views));
    }
  }

  const std::vector<std::vector<MessageView>>& batches() const { return batches_; }
  // Returns the bytes of all topics and values.
  std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& batch : batches_) {
      for (const MessageView& message : batch) bytes += message.topic.size() + message.value.size();
    }
    return bytes;
  }

 private:
  static constexpr std::uint64_t kSeed = 20'260'101;
  static constexpr std::uint64_t kTopics = 32'000;
  static constexpr std::uint64_t kStep =
      12'007;  // coprime with kTopics: any order, but always the same
  static constexpr std::uint64_t kPeriod = 10'000'000;
  static constexpr std::uint64_t kStart = 1'767'225'600'000'000;

  static std::string TopicOf(std::uint64_t number) {
    char topic[64];
    std::snprintf(topic, sizeof topic, "metrics/host%04d/cpu/socket/%d/core/%d",
                  static_cast<int>(number / 32), static_cast<int>(number / 16 % 2),
                  static_cast<int>(number % 16));
    return topic;
  }
  static std::string ValueOf(std::mt19937_64* random) {
    const auto below = [&](std::uint64_t limit) { return static_cast<int>((*random)() % limit); };
    const int user = below(10'000);
    const int system = below(3'000);
    const int frequency = below(4'000'000);
    const int temperature = below(700);
    const int interrupts = below(50'000);
    char value[256];
    std::snprintf(value, sizeof value,
                  "{\"user_pct\":%.2f,\"system_pct\":%.2f,\"freq_khz\":%d,\"temp_c\":%.1f,"
                  "\"irq_per_s\":%d,\"idle_pct\":%.2f,\"steal_pct\":%.2f,\"ctx_switches\":%d,"
                  "\"governor\":\"schedutil\",\"ok\":true}",
                  user / 100.0, system / 100.0, frequency, 30 + temperature / 10.0, interrupts,
                  100 - user / 100.0, system % 7 / 100.0, frequency * 3 + interrupts);
    std::string text = value;
    text.resize(200, ' ');
    return text;
  }

  std::vector<std::string> topics_;
  std::vector<std::string> values_;
  std::vector<std::vector<MessageView>> batches_;
};

}  // namespace topicdb::replication
