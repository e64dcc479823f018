# topicdb::deflate (CRC-32), topicdb::xxhash (XXH3, used header-only) and topicdb::zstd and topicdb::lz4
# (sealed blocks). Debian's packages bring no CMake files, vcpkg's do: all are found by header and library.
find_path(TOPICDB_DEFLATE_INCLUDE libdeflate.h REQUIRED)
find_library(TOPICDB_DEFLATE_LIBRARY NAMES deflate libdeflate REQUIRED)
add_library(topicdb_deflate INTERFACE)
add_library(topicdb::deflate ALIAS topicdb_deflate)
target_include_directories(topicdb_deflate SYSTEM INTERFACE "${TOPICDB_DEFLATE_INCLUDE}")
target_link_libraries(topicdb_deflate INTERFACE "${TOPICDB_DEFLATE_LIBRARY}")

find_path(TOPICDB_XXHASH_INCLUDE xxhash.h REQUIRED)
add_library(topicdb_xxhash INTERFACE)
add_library(topicdb::xxhash ALIAS topicdb_xxhash)
target_include_directories(topicdb_xxhash SYSTEM INTERFACE "${TOPICDB_XXHASH_INCLUDE}")
target_compile_definitions(topicdb_xxhash INTERFACE XXH_INLINE_ALL)

find_path(TOPICDB_ZSTD_INCLUDE zstd.h REQUIRED)
find_library(TOPICDB_ZSTD_LIBRARY NAMES zstd REQUIRED)
add_library(topicdb_zstd INTERFACE)
add_library(topicdb::zstd ALIAS topicdb_zstd)
target_include_directories(topicdb_zstd SYSTEM INTERFACE "${TOPICDB_ZSTD_INCLUDE}")
target_link_libraries(topicdb_zstd INTERFACE "${TOPICDB_ZSTD_LIBRARY}")

find_path(TOPICDB_LZ4_INCLUDE lz4.h REQUIRED)
find_library(TOPICDB_LZ4_LIBRARY NAMES lz4 REQUIRED)
add_library(topicdb_lz4 INTERFACE)
add_library(topicdb::lz4 ALIAS topicdb_lz4)
target_include_directories(topicdb_lz4 SYSTEM INTERFACE "${TOPICDB_LZ4_INCLUDE}")
target_link_libraries(topicdb_lz4 INTERFACE "${TOPICDB_LZ4_LIBRARY}")
