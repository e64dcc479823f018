# topicdb::deflate (CRC-32), topicdb::xxhash (XXH3, used header-only) and topicdb::zstd and topicdb::lz4
# (sealed blocks). Debian's packages bring no CMake files, vcpkg's do: all are found by header and library.

# topicdb::<name>, of a header and, if there are more arguments, a library of one of those names.
function(topicdb_find_library name header)
  string(TOUPPER "TOPICDB_${name}" prefix)
  find_path(${prefix}_INCLUDE ${header} REQUIRED)
  add_library(topicdb_${name} INTERFACE)
  add_library(topicdb::${name} ALIAS topicdb_${name})
  target_include_directories(topicdb_${name} SYSTEM INTERFACE "${${prefix}_INCLUDE}")
  if(ARGN)
    find_library(${prefix}_LIBRARY NAMES ${ARGN} REQUIRED)
    target_link_libraries(topicdb_${name} INTERFACE "${${prefix}_LIBRARY}")
  endif()
endfunction()

topicdb_find_library(deflate libdeflate.h deflate libdeflate)
topicdb_find_library(xxhash xxhash.h)
topicdb_find_library(zstd zstd.h zstd)
topicdb_find_library(lz4 lz4.h lz4)
target_compile_definitions(topicdb_xxhash INTERFACE XXH_INLINE_ALL)
