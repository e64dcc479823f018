#include "store/care/quarantine.h"

#include <chrono>
#include <ctime>

#include "base/clock.h"
#include "base/file/files.h"

namespace topicdb {

namespace {

// Returns a name such as "20261122T104138.123456Z".
std::string TimeName() {
  const WallTime now = ReadWallClock();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::string text(sizeof("20261122T104138"), '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%S", &parts));
  std::string micros = std::to_string((now.time_since_epoch() % std::chrono::seconds(1)).count());
  micros.insert(0, 6 - micros.size(), '0');
  return text + "." + micros + "Z";
}

}  // namespace

Result<std::string> MakeQuarantine(const std::string& database_path) {
  const std::string all = database_path + "/quarantine";
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(all));
  std::string directory = all + "/" + TimeName();
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory));
  TOPICDB_RETURN_IF_ERROR(SyncDirectory(all));
  TOPICDB_RETURN_IF_ERROR(SyncDirectory(database_path));
  return directory;
}

}  // namespace topicdb
