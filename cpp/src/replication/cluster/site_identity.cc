#include "replication/cluster/site_identity.h"

#include <iterator>

#include "base/bytes/coding.h"
#include "base/bytes/hash.h"
#include "base/bytes/random_bytes.h"
#include "base/file/files.h"
#include "replication/hashed_bytes.h"

namespace topicdb::replication {

namespace {

// Version 1 does not say whether the site has joined: none could.
constexpr std::uint8_t kVersion = 2;
constexpr std::size_t kFileBytesMax = 4'096;

// Returns the group of the sites with these names. The groups of shards follow it, and the
// consensus has room for them below the greatest number.
std::uint64_t GroupOf(const std::map<std::string, std::string>& sites) {
  std::string names;
  for (const auto& [name, address] : sites) AppendPrefixed(&names, name);
  return (Hash64(names) >> 2) + 1;
}

Result<SiteIdentity> ReadOwnIdentity(const std::string& path, const std::string& name) {
  auto found = ReadSiteIdentity(path);
  if (!found.ok() || found->name == name) return found;
  return InvalidArgument(path + " is that of site '" + found->name + "', not of '" + name + "'");
}

}  // namespace

std::string Encode(const SiteIdentity& identity) {
  std::string bytes;
  bytes.push_back(static_cast<char>(kVersion));
  bytes.append(identity.id.begin(), identity.id.end());
  AppendPrefixed(&bytes, identity.name);
  AppendLittle<std::uint64_t>(&bytes, identity.replica);
  AppendLittle<std::uint64_t>(&bytes, identity.group);
  bytes.push_back(static_cast<char>(identity.has_joined ? 1 : 0));
  AppendHash(&bytes);
  return bytes;
}

Result<SiteIdentity> DecodeSiteIdentity(std::string_view bytes) {
  const std::string what = "the identity of the site";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kVersion));
  SiteIdentity identity;
  decoder.Array(&identity.id);
  identity.name = decoder.Prefixed();
  identity.replica = decoder.Little<std::uint64_t>();
  identity.group = decoder.Little<std::uint64_t>();
  if (bytes[0] > 1) identity.has_joined = decoder.Little<std::uint8_t>() != 0;
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  return identity;
}

SiteIdentity MakeSiteIdentity(const std::string& name,
                              const std::map<std::string, std::string>& sites) {
  SiteIdentity identity;
  identity.id = RandomBytes<16>();
  identity.name = name;
  identity.replica = static_cast<std::uint64_t>(std::distance(sites.begin(), sites.find(name))) + 1;
  identity.group = GroupOf(sites);
  return identity;
}

Result<SiteIdentity> ReadSiteIdentity(const std::string& path) {
  TOPICDB_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kFileBytesMax));
  auto found = DecodeSiteIdentity(bytes);
  if (!found.ok()) return found.status().WithContext(path);
  return found;
}

Result<SiteIdentity> LoadSiteIdentity(const std::string& path, const std::string& name,
                                      const std::map<std::string, std::string>& sites) {
  SiteIdentity made = MakeSiteIdentity(name, sites);
  if (!Exists(path)) {
    TOPICDB_RETURN_IF_ERROR(StoreSiteIdentity(path, made));
    return made;
  }
  TOPICDB_ASSIGN_OR_RETURN(SiteIdentity found, ReadOwnIdentity(path, name));
  if (found.has_joined) {
    return InvalidArgument(path + " is that of a site which has joined its cluster: give site '" +
                           name + "' addresses to join, and no sites");
  }
  if (found.group != made.group) {
    return InvalidArgument(path + " is that of a cluster with other sites: give site '" + name +
                           "' the sites with which it began");
  }
  return found;
}

Result<SiteIdentity> LoadJoiningIdentity(const std::string& path, const std::string& name) {
  if (!Exists(path)) {
    SiteIdentity made;
    made.id = RandomBytes<16>();
    made.name = name;
    made.has_joined = true;
    // It is written before anybody hears of it, so that the site is the same one if it asks again.
    TOPICDB_RETURN_IF_ERROR(StoreSiteIdentity(path, made));
    return made;
  }
  TOPICDB_ASSIGN_OR_RETURN(SiteIdentity found, ReadOwnIdentity(path, name));
  if (found.has_joined) return found;
  return InvalidArgument(path + " is that of a site which has founded its cluster: give site '" +
                         name + "' the sites with which it began, and nothing to join");
}

Status StoreSiteIdentity(const std::string& path, const SiteIdentity& identity) {
  return WriteFileAtomically(path, Encode(identity));
}

}  // namespace topicdb::replication
