# The toolchain of the preset "aarch64": Debian's cross compiler makes programs for Linux on ARM, 64 bits, and
# CTest runs them under qemu-aarch64. CMake looks for libraries only in the folders that the environment
# variable TOPICDB_AARCH64_ROOTS names: the one that scripts/aarch64_sysroot.sh prints, and that of
# `scripts/rocksdb.sh --aarch64`. scripts/cpp.sh sets it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

string(REPLACE ":" ";" CMAKE_FIND_ROOT_PATH "$ENV{TOPICDB_AARCH64_ROOTS}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
