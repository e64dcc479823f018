# Looks for what the replicated log (raft/) needs: Cargo, a Rust that is new enough, and the crates, which Cargo
# fetches. With them it sets TOPICDB_RAFT_FOUND, and defines topicdb::raft: the C interface, and a static
# library. Cargo compiles the library only if a target that links it is built, and puts what it compiles into
# TOPICDB_CARGO_TARGET_DIR, which clones may share. Without them everything else is built.
set(TOPICDB_REPLICATION AUTO CACHE STRING
  "Build replication, which needs Cargo: AUTO (if Cargo can compile raft/), ON (or fail) or OFF")
set_property(CACHE TOPICDB_REPLICATION PROPERTY STRINGS AUTO ON OFF)

set(folder "${CMAKE_BINARY_DIR}/raft-target")
if(DEFINED ENV{CARGO_TARGET_DIR})
  set(folder "$ENV{CARGO_TARGET_DIR}")
endif()
set(TOPICDB_CARGO_TARGET_DIR "${folder}" CACHE PATH "Where Cargo keeps what it compiles of raft/")

# Sets `variable` to the reason why raft/ cannot be compiled here, or to nothing. It has Cargo fetch the crates.
function(topicdb_find_raft variable)
  set(${variable} "" PARENT_SCOPE)
  find_program(TOPICDB_CARGO cargo)
  cmake_path(GET TOPICDB_CARGO PARENT_PATH beside)
  find_program(TOPICDB_RUSTC rustc HINTS "${beside}")
  file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/raft/Cargo.toml" needed REGEX "^rust-version = ")
  string(REGEX REPLACE "^rust-version = \"(.*)\"$" "\\1" needed "${needed}")
  if(CMAKE_CROSSCOMPILING)
    set(${variable} "it is built for the machine that builds it" PARENT_SCOPE)
    return()
  endif()
  if(NOT TOPICDB_CARGO OR NOT TOPICDB_RUSTC)
    set(${variable} "there is no Cargo: install Cargo and Rust ${needed} or newer" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND "${TOPICDB_RUSTC}" --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(NOT version MATCHES "^rustc ([0-9.]+)" OR CMAKE_MATCH_1 VERSION_LESS needed)
    string(STRIP "${version}" version)
    set(${variable} "${TOPICDB_RUSTC} is not Rust ${needed} or newer, but \"${version}\": update it" PARENT_SCOPE)
    return()
  endif()
  set(log "${CMAKE_BINARY_DIR}/raft-fetch.log")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env "PATH=${beside}:$ENV{PATH}" "${TOPICDB_CARGO}" fetch --locked
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/raft"
    OUTPUT_FILE "${log}" ERROR_FILE "${log}" RESULT_VARIABLE failed)
  if(failed)
    set(${variable} "Cargo cannot get its crates: see ${log}" PARENT_SCOPE)
  endif()
endfunction()

# Defines topicdb::raft. Where C++ is compiled with assertions, so is the library, and then it is compiled in
# less time: that is the profile sim.
function(topicdb_define_raft)
  set(profile release)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(profile sim)
  endif()
  set(library "${CMAKE_BINARY_DIR}/raft/libtopicdb_raft.a")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/raft/src/*.rs")
  add_custom_command(OUTPUT "${library}"
    COMMAND "${CMAKE_COMMAND}" -E env "TOPICDB_CARGO=${TOPICDB_CARGO}" "CARGO_TARGET_DIR=${TOPICDB_CARGO_TARGET_DIR}"
      bash "${CMAKE_CURRENT_SOURCE_DIR}/scripts/raft.sh" library ${profile} "${library}"
    DEPENDS ${sources} "${CMAKE_CURRENT_SOURCE_DIR}/raft/Cargo.toml" "${CMAKE_CURRENT_SOURCE_DIR}/raft/Cargo.lock"
    COMMENT "Cargo compiles raft/ (${profile})" VERBATIM)
  add_custom_target(topicdb_raft_library DEPENDS "${library}")

  find_package(Threads REQUIRED)
  add_library(topicdb::raft STATIC IMPORTED GLOBAL)
  add_dependencies(topicdb::raft topicdb_raft_library)
  set_target_properties(topicdb::raft PROPERTIES IMPORTED_LOCATION "${library}")
  target_include_directories(topicdb::raft INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/raft/include")
  # What `cargo rustc -- --print native-static-libs` names, beside the C library.
  target_link_libraries(topicdb::raft INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    target_link_libraries(topicdb::raft INTERFACE gcc_s util rt)
  endif()
endfunction()

set(TOPICDB_RAFT_FOUND FALSE)
set(TOPICDB_RAFT_LACKS "it was built with TOPICDB_REPLICATION=OFF") # what there would have to be
if(NOT TOPICDB_REPLICATION)
  message(STATUS "Without replication: TOPICDB_REPLICATION is ${TOPICDB_REPLICATION}")
else()
  topicdb_find_raft(missing)
  if(NOT missing)
    set(TOPICDB_RAFT_FOUND TRUE)
    set(TOPICDB_RAFT_LACKS "")
    message(STATUS "Replication: ${TOPICDB_CARGO}, compiled in ${TOPICDB_CARGO_TARGET_DIR}")
    topicdb_define_raft()
  elseif(TOPICDB_REPLICATION STREQUAL "AUTO")
    set(TOPICDB_RAFT_LACKS "when it was built, ${missing}")
    message(STATUS "Without replication: ${missing}")
  else()
    message(FATAL_ERROR "TOPICDB_REPLICATION is ${TOPICDB_REPLICATION}, but raft/ cannot be compiled: ${missing}. "
      "TOPICDB_REPLICATION=OFF builds TopicDB without it.")
  endif()
endif()
