// A site of a cluster: this process's part in a database of which other sites have replicas.
#include "register.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "topicdb/database/site.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// Holds the site for Python, which may close it, and may be forked while it is open. The GIL guards
// it.
class OpenSite {
 public:
  explicit OpenSite(std::unique_ptr<Site> site) : site_(std::move(site)) {}
  ~OpenSite() {
    if (site_ != nullptr && site_->Forked()) new std::shared_ptr<Site>(std::move(site_));
  }
  OpenSite(const OpenSite&) = delete;
  OpenSite& operator=(const OpenSite&) = delete;

  // Returns the site, which stays open as long as the caller has it. Throws ForkedError or
  // ClosedError.
  std::shared_ptr<Site> Use() const {
    if (site_ == nullptr) Raise(Closed("the site is closed"));
    if (site_->Forked()) {
      Raise(Status(Code::kForked, "the site was started by the parent of this process"));
    }
    return site_;
  }
  // Ends the site. May be repeated. REQUIRES: its database is closed
  void Close() {
    if (site_ == nullptr || site_->Forked()) return;
    std::shared_ptr<Site> site;
    site.swap(site_);
    WithoutGil([&] { site.reset(); });
  }

 private:
  std::shared_ptr<Site> site_;
};

std::shared_ptr<OpenSite> Start(const std::string& path, const std::string& name,
                                const std::map<std::string, std::string>& sites, bool converts,
                                const std::vector<std::string>& join, const std::string& address,
                                const std::string& listen, const std::string& clients,
                                const std::tuple<std::string, std::string, std::string>& tls,
                                bool heals, std::chrono::microseconds election_timeout,
                                std::chrono::microseconds commit_timeout,
                                std::chrono::microseconds join_timeout) {
  using std::chrono::milliseconds;
  SiteOptions options;
  options.path = path;
  options.name = name;
  options.sites = sites;
  options.converts = converts;
  options.join = join;
  options.address = address;
  options.listen = listen;
  options.clients = clients;
  std::tie(options.authority, options.certificate, options.key) = tls;
  options.heals = heals;
  options.election_timeout = std::chrono::duration_cast<milliseconds>(election_timeout);
  options.commit_patience = std::chrono::duration_cast<milliseconds>(commit_timeout);
  options.join_patience = std::chrono::duration_cast<milliseconds>(join_timeout);
  return std::make_shared<OpenSite>(
      Unwrap(WithoutGil([&] { return Site::Start(std::move(options)); })));
}

std::unique_ptr<Database> OpenDatabase(const OpenSite& self, const OpenOptions& options,
                                       std::chrono::microseconds timeout) {
  const auto site = self.Use();
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  return Unwrap(WithoutGil([&] { return site->OpenDatabase(options, patience); }));
}

const char* NameOf(ReplicaState state) {
  switch (state) {
    case ReplicaState::kFollowing:
      return "following";
    case ReplicaState::kTakingOver:
      return "taking over";
    case ReplicaState::kLeading:
      return "leading";
    case ReplicaState::kGivingUp:
      return "giving up";
    case ReplicaState::kFailed:
      return "failed";
    case ReplicaState::kHealing:
      return "healing";
  }
  return "";
}

// Returns shard, state, replica that leads, term, and the indexes of entries: committed, applied,
// first, last; and why the replica has failed or is being healed, or an empty text.
py::list Replicas(const OpenSite& self) {
  const auto site = self.Use();
  const auto reports = WithoutGil([&] { return site->Replicas(); });
  py::list result;
  for (const ReplicaReport& report : reports) {
    result.append(py::make_tuple(report.shard, NameOf(report.state), report.leader, report.term,
                                 report.committed, report.applied, report.first, report.last,
                                 report.failure.ok() ? "" : report.failure.message()));
  }
  return result;
}

const char* NameOf(SiteState state) {
  switch (state) {
    case SiteState::kMember:
      return "member";
    case SiteState::kJoining:
      return "joining";
    case SiteState::kLeaving:
      return "leaving";
  }
  return "";
}

// Returns name, replica, the addresses for other sites and for clients, and the state.
py::list Sites(const OpenSite& self) {
  py::list result;
  for (const auto& site : self.Use()->Sites()) {
    result.append(
        py::make_tuple(site.name, site.replica, site.peers, site.clients, NameOf(site.state)));
  }
  return result;
}

// Changes the sites of the cluster by one of the calls of Site.
template <Status (Site::*kChange)(const std::string&, std::chrono::milliseconds)>
void ChangeSites(const OpenSite& self, const std::string& name, std::chrono::microseconds timeout) {
  const auto site = self.Use();
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  Check(WithoutGil([&] { return (site.get()->*kChange)(name, patience); }));
}

void AwaitShards(const OpenSite& self, std::chrono::microseconds timeout) {
  const auto site = self.Use();
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  Check(WithoutGil([&] { return site->AwaitShards(patience); }));
}

void StepDown(const OpenSite& self, const std::string& name) {
  const auto site = self.Use();
  Check(WithoutGil([&] { return site->StepDown(name); }));
}

std::size_t Balance(const OpenSite& self) {
  const auto site = self.Use();
  return Unwrap(WithoutGil([&] { return site->Balance(); }));
}

std::uint32_t Upgrade(const OpenSite& self, std::chrono::microseconds timeout) {
  const auto site = self.Use();
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  return Unwrap(WithoutGil([&] { return site->Upgrade(patience); }));
}

const char* NameOf(ReplicaOutcome outcome) {
  switch (outcome) {
    case ReplicaOutcome::kSame:
      return "same";
    case ReplicaOutcome::kDiffers:
      return "differs";
    case ReplicaOutcome::kDamaged:
      return "damaged";
    case ReplicaOutcome::kNotCompared:
      return "not compared";
  }
  return "";
}

// Returns the name of the site of a directory, and the names of all sites of its cluster.
std::pair<std::string, std::vector<std::string>> Load(const std::string& path) {
  StoredSite stored = Unwrap(WithoutGil([&] { return Site::Load(path); }));
  std::vector<std::string> names;
  for (ClusterSite& site : stored.sites) names.push_back(std::move(site.name));
  return {std::move(stored.name), std::move(names)};
}

void ForgetOthers(const std::string& path,
                  const std::tuple<std::string, std::string, std::string>& tls) {
  SiteOptions options;
  options.path = path;
  std::tie(options.authority, options.certificate, options.key) = tls;
  Check(WithoutGil([&] { return Site::ForgetOthers(options); }));
}

// Returns shard, site, outcome, parts, and why, or an empty text.
py::list Verify(const OpenSite& self, std::chrono::microseconds timeout) {
  const auto site = self.Use();
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  const auto verified =
      Unwrap(WithoutGil([&] { return site->Verify(patience, &PythonInterrupts); }));
  py::list result;
  for (const ReplicaVerification& one : verified) {
    result.append(
        py::make_tuple(one.shard, one.site, NameOf(one.outcome), py::cast(one.parts), one.why));
  }
  return result;
}

void Heal(const OpenSite& self, const std::string& name, std::uint32_t shard) {
  const auto site = self.Use();
  Check(WithoutGil([&] { return site->Heal(name, shard); }));
}

py::bytes ClusterOf(const OpenSite& self) {
  const auto id = self.Use()->cluster_id();
  if (id == decltype(id){}) return {};
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

}  // namespace

void RegisterSite(py::module_& module) {
  py::class_<OpenSite, std::shared_ptr<OpenSite>>(module, "Site", "A site of a cluster.",
                                                  py::release_gil_before_calling_cpp_dtor())
      .def_static("start", &Start, py::arg("path"), py::arg("name"), py::arg("sites"),
                  py::arg("converts"), py::arg("join"), py::arg("address"), py::arg("listen"),
                  py::arg("clients"), py::arg("tls"), py::arg("heals"),
                  py::arg("election_timeout_us"), py::arg("commit_timeout_us"),
                  py::arg("join_timeout_us"))
      .def_static("load", &Load, py::arg("path"))
      .def_static("forget_others", &ForgetOthers, py::arg("path"), py::arg("tls"))
      .def("open_database", &OpenDatabase, py::arg("options"), py::arg("timeout_us"),
           py::keep_alive<0, 1>())
      .def("await_shards", &AwaitShards, py::arg("timeout_us"))
      .def(
          "set_address",
          [](const OpenSite& self, const std::string& name, const std::string& address) {
            Check(self.Use()->SetAddress(name, address));
          },
          py::arg("name"), py::arg("address"))
      .def_property_readonly("port", [](const OpenSite& self) { return self.Use()->port(); })
      .def_property_readonly("replica", [](const OpenSite& self) { return self.Use()->replica(); })
      .def("cluster", &ClusterOf)
      .def("sites", &Sites)
      .def("replicas", &Replicas)
      .def_property_readonly("format", [](const OpenSite& self) { return self.Use()->format(); })
      .def_property_readonly("newest_format",
                             [](const OpenSite& self) { return self.Use()->newest_format(); })
      .def_property_readonly("left",
                             [](const OpenSite& self) { return self.Use()->Standing().message(); })
      .def("leave", &ChangeSites<&Site::Leave>, py::arg("name"), py::arg("timeout_us"))
      .def("forget", &ChangeSites<&Site::Forget>, py::arg("name"), py::arg("timeout_us"))
      .def("step_down", &StepDown, py::arg("name"))
      .def("balance", &Balance)
      .def("upgrade", &Upgrade, py::arg("timeout_us"))
      .def("verify", &Verify, py::arg("timeout_us"))
      .def("heal", &Heal, py::arg("name"), py::arg("shard"))
      .def("close", &OpenSite::Close);
}

}  // namespace topicdb::python
