#include "store/database/job_views.h"

#include <algorithm>

namespace topicdb {

namespace {

bool HasApplied(const ShardView& view, const std::string& sequence, std::uint64_t number) {
  const auto found = view.jobs()->find(sequence);
  return found != view.jobs()->end() && found->second.last.number >= number;
}

bool IsFinished(const std::vector<ShardMoment>& moments, const std::string& sequence,
                const meta::JobSpan& span) {
  return std::all_of(moments.begin(), moments.end(), [&](const ShardMoment& moment) {
    return !std::binary_search(span.shards.begin(), span.shards.end(), moment.shard->index()) ||
           HasApplied(*moment.view, sequence, span.number);
  });
}

}  // namespace

std::vector<std::vector<SerialRange>> UnfinishedJobs(const std::vector<ShardMoment>& moments,
                                                     WallTime now) {
  std::vector<std::vector<SerialRange>> unfinished(moments.size());
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const auto consider = [&](const std::string& sequence, const meta::JobSpan& span) {
      if (span.committed_at + meta::kJobHiddenMax < now) return;
      if (IsFinished(moments, sequence, span)) return;
      unfinished[i].push_back({span.first_serial, span.last_serial});
    };
    for (const auto& [sequence, record] : *moments[i].view->jobs()) {
      for (const meta::JobSpan& span : record.earlier) consider(sequence, span);
      consider(sequence, record.last);
    }
    std::sort(unfinished[i].begin(), unfinished[i].end(),
              [](const SerialRange& a, const SerialRange& b) { return a.first < b.first; });
  }
  return unfinished;
}

bool AreFarApart(const std::vector<ShardMoment>& moments) {
  for (const ShardMoment& moment : moments) {
    for (const auto& [sequence, record] : *moment.view->jobs()) {
      if (record.earlier.size() < meta::kJobSpansMin) continue;
      const std::uint64_t told = record.earlier.front().number;
      const bool all_near =
          std::all_of(moments.begin(), moments.end(), [&, &name = sequence](const auto& other) {
            return HasApplied(*other.view, name, told - 1);
          });
      if (!all_near) return true;
    }
  }
  return false;
}

bool JobCurtain::IsKnownFinished(const std::vector<ShardMoment>& moments) {
  const MutexLock lock(mutex_);
  return std::equal(moments.begin(), moments.end(), finished_.begin(), finished_.end(),
                    [](const ShardMoment& moment, const SharedJobs& jobs) {
                      return moment.view->jobs() == jobs;
                    });
}

void JobCurtain::Hide(std::vector<ShardMoment>* moments) {
  if (moments->size() < 2 || IsKnownFinished(*moments)) return;
  const WallTime now = moments->front().shard->clock().Look().believed_time;
  std::vector<std::vector<SerialRange>> unfinished = UnfinishedJobs(*moments, now);
  std::vector<SharedJobs> jobs;
  bool finished = true;
  for (std::size_t i = 0; i < moments->size(); ++i) {
    ShardMoment& moment = (*moments)[i];
    jobs.push_back(moment.view->jobs());
    if (unfinished[i].empty()) continue;
    finished = false;
    moment.view =
        std::make_shared<const ShardView>(std::move(moment.view), std::move(unfinished[i]));
  }
  if (!finished) return;
  const MutexLock lock(mutex_);
  finished_ = std::move(jobs);
}

}  // namespace topicdb
