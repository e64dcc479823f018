# Defines topicdb::deflate (CRC-32), topicdb::xxhash (XXH3, header-only), topicdb::zstd and topicdb::lz4
# (sealed blocks). Vcpkg's packages have CMake files, but Debian's have none: so this finds all of them by
# header and library.

# Defines topicdb::<name> from a header and, if there are more arguments, a library with one of these names.
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
