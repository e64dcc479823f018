// Checks of the format of a cluster, which topicdb/types/replicas.h describes.
#pragma once

#include <cstdint>
#include <string>

#include "topicdb/status.h"
#include "topicdb/types/replicas.h"

namespace topicdb::replication {

// Returns kSchema if this site cannot work with a format, since it knows those up to `newest`.
inline Status CheckFormat(std::uint32_t format, std::uint32_t newest) {
  if (format <= newest) return Status::Ok();
  return SchemaFault("the cluster writes format " + std::to_string(format) +
                     ", and this TopicDB can work with format " + std::to_string(newest) +
                     " at most: upgrade TopicDB on this site");
}

// Returns kCluster for something that came with a later format than the one in force: some site may
// not know it.
inline Status CheckInForce(std::uint32_t format, std::uint32_t in_force) {
  if (format <= in_force) return Status::Ok();
  return ClusterFault("the cluster writes format " + std::to_string(in_force) +
                      ", and this needs format " + std::to_string(format) +
                      ": once all sites run this version of TopicDB, call Cluster.upgrade or "
                      "`topicdb cluster upgrade`");
}

}  // namespace topicdb::replication
