// How a site goes on when a majority of its cluster is lost for good.
#pragma once

#include <string>

#include "replication/raft/raft_site.h"
#include "topicdb/database/site.h"
#include "topicdb/status.h"

namespace topicdb::replication {

// Reads which sites the cluster has, as the directory of a site says that is not running. Returns
// kNotFound if it is not that of a site; kCluster if the site knows of no cluster, or has left it;
// and what DecodeSiteIdentity and DecodeClusterSnapshot return.
Result<StoredSite> LoadStoredSite(const std::string& path);

// Makes the site of a directory the only one of its cluster, which has left the others behind for
// good. Uses the files of `options`, with which the site talks to the others. Returns kCluster if
// one of the sites is up, this one or another, and what LoadStoredSite and RaftSite::BeAlone
// return; then nothing was changed. A call that was interrupted is repeated.
Status ForgetOthers(const std::string& path, RaftSiteOptions options);

}  // namespace topicdb::replication
