// Who a site is. Only this file and site_identity.cc know the bytes, which docs/internals/format.md
// draws.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "topicdb/status.h"

namespace topicdb::replication {

// What the file `site/identity` in the directory of a database says. A site that founds its cluster
// writes it once, and one that joins a cluster a second time, when it knows its replica.
struct SiteIdentity {
  std::array<std::uint8_t, 16> id{};  // random, for ever
  std::string name;
  std::uint64_t replica = 0;  // the id in all groups of the consensus; 0: not known yet
  std::uint64_t group = 0;    // of the cluster; those of the shards follow it
  bool has_joined = false;    // a cluster that others had founded
  bool operator==(const SiteIdentity&) const = default;
};

std::string Encode(const SiteIdentity& identity);
// Returns kCorruption for bytes that Encode has not made, and kSchema for a later version.
Result<SiteIdentity> DecodeSiteIdentity(std::string_view bytes);

// Returns the identity of a new site with a random id. `sites` are all sites that found the
// cluster, by name, with their addresses. The names decide the replica and the group, so sites that
// were given others never talk about the same group. REQUIRES: `sites` has `name`
SiteIdentity MakeSiteIdentity(const std::string& name,
                              const std::map<std::string, std::string>& sites);

// Reads the identity from the file. Returns kNotFound if there is none, kCorruption, kSchema and
// kStorage.
Result<SiteIdentity> ReadSiteIdentity(const std::string& path);

// As ReadSiteIdentity, or makes and writes it. Returns kInvalidArgument if the file is
// that of another site, or of one with others, kCorruption, kSchema and kStorage.
Result<SiteIdentity> LoadSiteIdentity(const std::string& path, const std::string& name,
                                      const std::map<std::string, std::string>& sites);

// The same for a site that joins a cluster, which says its replica and group later: both are 0
// until StoreSiteIdentity has written them. Returns kInvalidArgument if the file is that of another
// site, or of one that has founded its cluster.
Result<SiteIdentity> LoadJoiningIdentity(const std::string& path, const std::string& name);

// Writes the file, durably.
Status StoreSiteIdentity(const std::string& path, const SiteIdentity& identity);

}  // namespace topicdb::replication
