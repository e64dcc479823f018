# Defines topicdb::rocksdb, the RocksDB that TopicDB links. It comes from a prefix in CMAKE_PREFIX_PATH
# (scripts/rocksdb.sh prints one) or from a vcpkg toolchain.
set(_topicdb_saved_module_path "${CMAKE_MODULE_PATH}")
unset(RocksDB_DIR CACHE) # otherwise a build folder would keep the one that it found first
find_package(RocksDB CONFIG REQUIRED) # without a version: its version file accepts one major only
set(CMAKE_MODULE_PATH "${_topicdb_saved_module_path}") # RocksDB's config appends a folder of its own

if(RocksDB_VERSION VERSION_LESS 9.0)
  message(FATAL_ERROR "RocksDB >= 9 is needed, found ${RocksDB_VERSION} (${RocksDB_DIR}): older ones "
    "end a scan early without an error when a file is missing. Run scripts/rocksdb.sh and put the "
    "prefix that it prints into CMAKE_PREFIX_PATH, or use a vcpkg toolchain.")
endif()
if(NOT TARGET RocksDB::rocksdb)
  message(FATAL_ERROR "${RocksDB_DIR} has no static library (target RocksDB::rocksdb)")
endif()

add_library(topicdb_rocksdb INTERFACE)
add_library(topicdb::rocksdb ALIAS topicdb_rocksdb)
target_link_libraries(topicdb_rocksdb INTERFACE RocksDB::rocksdb)
