#include <algorithm>
#include <tuple>

#include "convert/mailbox.h"
#include "convert/messages.h"
#include "convert/numbers.h"
#include "register.h"
#include "topicdb/subscription.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// A subscription in Python.
struct PySubscription {
  std::shared_ptr<Subscription> subscription;
};

using PlacePair = std::pair<Serial, std::uint32_t>;  // of a CommitPlace
using Places = std::map<std::uint32_t, PlacePair>;
using Counted = std::map<std::uint32_t, Serial>;

// Returns whether this is Python's main thread. Signals come to it alone, so other threads need not
// look for them.
bool IsMainThread() {
  const py::module_ threading = py::module_::import("threading");
  return threading.attr("get_ident")().equal(threading.attr("main_thread")().attr("ident"));
}

// Returns a batch or a loss; None if nothing came.
std::optional<Delivered> Next(const PySubscription& self, std::optional<std::int64_t> timeout_us,
                              std::size_t rows_max) {
  const bool waits = !timeout_us.has_value() || *timeout_us > 0;
  const InterruptCheck interrupted =
      waits && IsMainThread() ? InterruptCheck(&PythonInterrupts) : InterruptCheck();
  return Unwrap(WithoutGil(
      [&] { return self.subscription->Next(Timeout(timeout_us), interrupted, rows_max); }));
}

void Acknowledge(const PySubscription& self, std::uint64_t seqno) {
  Check(WithoutGil([&] { return self.subscription->Acknowledge(seqno); }));
}

void OnReady(const PySubscription& self, std::shared_ptr<ReadyTokens> tokens, std::uint64_t token) {
  const py::gil_scoped_release release;
  self.subscription->OnReady([tokens = std::move(tokens), token] { tokens->Add(token); });
}

const char* NameOf(SubscriptionState state) {
  switch (state) {
    case SubscriptionState::kCatchingUp:
      return "catching up";
    case SubscriptionState::kLive:
      return "live";
    case SubscriptionState::kFull:
      return "full";
    case SubscriptionState::kPaused:
      return "paused";
    case SubscriptionState::kFailed:
      return "failed";
    case SubscriptionState::kClosed:
      return "closed";
  }
  return "";
}

py::dict PlacesDict(const std::map<std::uint32_t, CommitPlace>& places) {
  py::dict result;
  for (const auto& [shard, place] : places) {
    result[py::int_(shard)] = py::make_tuple(place.serial, place.index);
  }
  return result;
}

py::dict InfoOf(const PySubscription& self) {
  const SubscriptionInfo info = WithoutGil([&] { return self.subscription->Info(); });
  py::dict result;
  result["state"] = NameOf(info.state);
  result["delivered"] = info.delivered;
  result["acknowledged"] = info.acknowledged;
  result["waiting"] = info.waiting;
  result["waiting_bytes"] = info.waiting_bytes;
  result["places"] = PlacesDict(info.places);
  result["lost"] = info.lost;
  return result;
}

SubscribeFrom FromPlaces(const std::optional<Places>& places, std::int64_t start_us,
                         std::vector<Iterator> given) {
  SubscribeFrom from;
  from.timestamp_min = start_us;
  from.given = std::move(given);
  if (places.has_value()) {
    for (const auto& [shard, place] : *places) (*from.places)[shard] = {place.first, place.second};
  } else {
    from.places.reset();
  }
  return from;
}

PySubscription Subscribe(const Database& self, const Filters& filters,
                         const std::optional<Places>& places, std::int64_t start_us,
                         std::uint64_t messages, std::uint64_t bytes,
                         std::pair<std::uint32_t, std::uint32_t> part, const Counted& counted,
                         std::vector<Iterator> given) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  SubscribeFrom from = FromPlaces(places, start_us, std::move(given));
  std::tie(from.part, from.parts) = part;
  from.counted = counted;
  return {Unwrap(
      WithoutGil([&] { return self.subscriptions().Subscribe(parsed, from, {messages, bytes}); }))};
}

void CheckLog(const Database& self, const Filters& filters, const std::optional<Places>& places,
              std::int64_t start_us, std::vector<Iterator> given) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  const SubscribeFrom from = FromPlaces(places, start_us, std::move(given));
  Check(WithoutGil([&] { return self.subscriptions().CheckLog(parsed, from); }));
}

py::dict PlacesAt(const Database& self, const Filters& filters, std::int64_t start_us) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  return PlacesDict(Unwrap(WithoutGil(
      [&] { return self.subscriptions().PlacesAt(parsed, start_us, &PythonInterrupts); })));
}

std::uint64_t CountDropped(const Database& self, std::uint32_t shard, const Filters& filters,
                           std::int64_t start_us, PlacePair place, Serial counted) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  const CommitPlace from{place.first, place.second};
  return Unwrap(WithoutGil(
      [&] { return self.subscriptions().CountDropped(shard, parsed, start_us, from, counted); }));
}

// Returns (batch, rows).
py::tuple Find(const PySubscription& self, std::uint32_t shard,
               const std::vector<PlacePair>& places) {
  std::vector<CommitPlace> wanted;
  for (const auto& [serial, row] : places) wanted.push_back({serial, row});
  std::sort(wanted.begin(), wanted.end());
  PlacedMessages found =
      Unwrap(WithoutGil([&] { return self.subscription->Find(shard, wanted, &PythonInterrupts); }));
  return py::make_tuple(WrapBatch(std::move(found.batch)), ArrayOf(found.rows));
}

py::dict SubscriptionStatsOf(const Database& self) {
  const SubscriptionStats stats =
      Unwrap(WithoutGil([&] { return self.subscriptions().GetStats(); }));
  py::dict result;
  result["subscriptions"] = stats.subscriptions;
  result["live_reads"] = stats.live_reads;
  result["catch_up_reads"] = stats.catch_up_reads;
  result["shared_reads"] = stats.shared_reads;
  result["page_bytes"] = stats.page_bytes;
  return result;
}

py::list TakeTokens(ReadyTokens& self, std::optional<std::int64_t> timeout_us) {
  return py::cast(WithoutGil([&] { return self.Take(Timeout(timeout_us)); }));
}

void GiveToken(ReadyTokens& self, std::uint64_t token) {
  const py::gil_scoped_release release;
  self.Add(token);
}

// Calls a method of the subscription without the GIL.
template <void (Subscription::*Method)()>
void Call(const PySubscription& self) {
  const py::gil_scoped_release release;
  (self.subscription.get()->*Method)();
}

}  // namespace

void RegisterSubscribe(py::module_& module, py::class_<Database>& type) {
  py::class_<ReadyTokens, std::shared_ptr<ReadyTokens>>(
      module, "ReadyTokens", "Tokens of subscriptions that have something to give.")
      .def(py::init<>())
      .def("give", &GiveToken, py::arg("token"), py::pos_only())
      .def("take", &TakeTokens, py::arg("timeout_us") = py::none())
      .def("close", &ReadyTokens::Close);
  py::class_<PySubscription>(module, "Subscription", "Messages as they come.",
                             py::release_gil_before_calling_cpp_dtor())
      .def("next", &Next, py::arg("timeout_us"), py::arg("rows_max"))
      .def("acknowledge", &Acknowledge, py::arg("seqno"))
      .def("on_ready", &OnReady, py::arg("tokens"), py::arg("token"))
      .def("info", &InfoOf)
      .def("find", &Find, py::arg("shard"), py::arg("places"))
      .def("missing_shards",
           [](const PySubscription& self) { return self.subscription->missing_shards(); })
      .def("pause", &Call<&Subscription::Pause>)
      .def("resume", &Call<&Subscription::Resume>)
      .def("close", &Call<&Subscription::Close>)
      .def_property_readonly("closed", [](const PySubscription& self) {
        return WithoutGil([&] { return self.subscription->closed(); });
      });
  type.def("subscribe", &Subscribe, py::arg("filters"), py::arg("places"), py::arg("start_us"),
           py::arg("window"), py::arg("window_bytes"), py::arg("part") = std::pair(0, 1),
           py::arg("counted") = Counted(), py::arg("given") = std::vector<Iterator>())
      .def("count_dropped", &CountDropped, py::arg("shard"), py::arg("filters"),
           py::arg("start_us"), py::arg("place"), py::arg("counted"))
      .def("check_log", &CheckLog, py::arg("filters"), py::arg("places"), py::arg("start_us"),
           py::arg("given") = std::vector<Iterator>())
      .def("places_at", &PlacesAt, py::arg("filters"), py::arg("start_us"))
      .def("subscription_stats", &SubscriptionStatsOf);
}

}  // namespace topicdb::python
